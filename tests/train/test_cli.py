import pytest

from tfx_transformer import __version__
from tfx_transformer.layers import ATTENTION, POSITION
from tfx_transformer.train.cli import main


def test_layers_lists_all_names(capsys):
    main(["layers"])
    out = capsys.readouterr().out
    for name in (*ATTENTION, *POSITION):
        assert name in out


def test_the_version_is_the_package_s(capsys):
    main(["--version"])
    assert capsys.readouterr().out == f"tfx-transformer {__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["fly"]])
def test_a_wrong_command_fails_and_names_the_right_ones(arguments, capsys):
    with pytest.raises(SystemExit) as exit:
        main(arguments)
    captured = capsys.readouterr()
    assert exit.value.code == 2 and "demo" in captured.err + captured.out
