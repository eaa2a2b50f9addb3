// Images of a text, the most likely first; a seed draws the same ones again.

import { sendJson } from "./api.js";
import { element, Panel } from "./panel.js";

const COUNT = 8; // images that are shown

export function textToImage(models) {
  const panel = new Panel("text_to_image", models);
  const run = panel.latest(async (signal) => {
    const { name, count } = panel.model, seed = panel.part("seed").value;
    const body = { text: panel.part("text").value, count: Math.min(COUNT, count ?? COUNT), model: name };
    if (seed) body.seed = Number(seed);
    panel.say("Drawing …");
    const { drawings: [found] } = await sendJson("draw", body, signal);
    const figures = await Promise.all(found.images.map((drawn) => figure(drawn, body.text)));
    panel.part("list").replaceChildren(...figures);
    panel.say(found.truncated ? "The end of the text was not read: it is too long." : "");
  });
  panel.part("form").addEventListener("submit", (event) => {
    event.preventDefault();
    run();
  });
  return panel;
}

/** A PNG file in base64, as a canvas with its log-probability. */
async function figure({ image, score }, text) {
  const bytes = Uint8Array.from(atob(image), (character) => character.charCodeAt(0));
  const bitmap = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
  const { width, height } = bitmap;
  const canvas = element("canvas", { width, height, role: "img", ariaLabel: text });
  canvas.getContext("2d").drawImage(bitmap, 0, 0);
  const caption = element("figcaption", { textContent: score?.toFixed(1).replace("-", "−") ?? "" });
  const shown = element("figure");
  shown.append(canvas, caption);
  return shown;
}
