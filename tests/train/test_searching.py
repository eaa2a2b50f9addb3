from tfx_transformer.decoding import DECODERS
from tfx_transformer.train.searching import OPTIONS, Decoding, Search


def test_each_way_has_its_own_options():
    assert Decoding("greedy", width=7).spec() == {"kind": "greedy"}
    assert Decoding("beam", width=7, top_k=3).spec() == {
        **{"kind": "beam", "width": 7, "length_penalty": 0.6, "n_best": 1},
    }
    drawn = {"kind": "sample", "temperature": 0.5, "top_k": 3, "top_p": 1.0, "num_samples": 2}
    assert Decoding("sample", n_best=2, temperature=0.5, top_k=3).spec() == drawn


def test_every_way_makes_a_decoder():
    assert set(OPTIONS) == set(DECODERS)
    for kind in OPTIONS:
        DECODERS.make(Decoding(kind).spec())


def test_what_a_search_does_not_say_is_as_the_recipe_has_it():
    own = Decoding("beam", width=7, length_penalty=0.1)
    assert Search(max_length=9).decoder(own) == own.spec()
    assert Search(width=2).decoder(own) == own.spec() | {"width": 2}
    drawn = Search(kind="sample", temperature=0.5, top_p=0.9).decoder(own)
    assert (drawn["kind"], drawn["temperature"], drawn["top_p"]) == ("sample", 0.5, 0.9)
