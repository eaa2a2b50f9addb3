// Classes of a picture with the attention rollout; captions with the region of each word.

import { sendJson } from "./api.js";
import { Panel } from "./panel.js";
import { Picture } from "./picture.js";
import { Words, joinWords } from "./words.js";

const UNREADABLE = "The server cannot read this picture.";

export function classifier(models) {
  return picturePanel("classifier", models, (panel, picture) => async (signal, image) => {
    const { name, explains } = panel.model;
    const body = { image, rollout: explains, model: name };
    const { predictions: [found] } = await sendJson("classify", body, signal);
    panel.showBars(found.classes);
    panel.say(found.is_readable ? "" : UNREADABLE, !found.is_readable);
    picture.show(found.is_readable ? found.rollout ?? null : null, panel.model);
  });
}

export function captioner(models) {
  return picturePanel("captioner", models, (panel, picture) => {
    let words = [], weights = [];
    const row = new Words(panel.part("caption"), (index) => {
      row.light(null, index);
      const pieces = index === null ? [] : words[index].pieces.filter((i) => weights[i]);
      picture.show(pieces.length ? mean(pieces.map((i) => weights[i])) : null, panel.model);
    });
    return async (signal, image) => {
      const { name, explains } = panel.model;
      const body = { image, n_best: panel.nBest, attention: explains, model: name };
      const { captions: [found] } = await sendJson("caption", body, signal);
      words = found.pieces ? joinWords(found.pieces) : [{ text: found.text, pieces: [] }];
      weights = found.weights ?? [];
      row.show(found.is_readable ? words : []);
      picture.show(null);
      panel.part("hint").hidden = !(found.is_readable && weights.length);
      panel.showBest(found.is_readable ? found.n_best ?? [] : []);
      panel.say(found.is_readable ? "" : UNREADABLE, !found.is_readable);
    };
  });
}

/** A panel with a picture; makeWork(panel, picture) gives the work for each new one. */
function picturePanel(kind, models, makeWork) {
  const panel = new Panel(kind, models);
  const failed = (message) => panel.say(message, true);
  const picture = new Picture(panel.part("picture"), (image) => run((last = image)), failed);
  const run = panel.latest(makeWork(panel, picture));
  let last = null;
  panel.choice.addEventListener("change", () => last && run(last));
  return panel;
}

/** The mean of grids [R][S]. */
function mean(grids) {
  const average = (r, s) => grids.reduce((sum, grid) => sum + grid[r][s], 0) / grids.length;
  return grids[0].map((row, r) => row.map((_, s) => average(r, s)));
}
