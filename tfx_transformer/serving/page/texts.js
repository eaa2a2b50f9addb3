// Classes of a text while you type; text generation as a stream.

import { send, sendJson } from "./api.js";
import { Panel } from "./panel.js";

export function textClassifier(models) {
  const panel = new Panel("text_classifier", models);
  panel.whenTyped(async (signal, text) => {
    if (!text) return panel.showBars([]);
    const body = { text, model: panel.model.name };
    const { predictions: [found] } = await sendJson("classify", body, signal);
    panel.showBars(found.classes);
  });
  return panel;
}

export function generator(models) {
  const panel = new Panel("generator", models);
  const [start, stop, result] = ["start", "stop", "result"].map((name) => panel.part(name));
  let controller = null;

  const isRunning = (value) => {
    start.disabled = value;
    stop.disabled = !value;
    panel.section.setAttribute("aria-busy", value);
  };
  stop.addEventListener("click", () => controller?.abort());
  panel.part("form").addEventListener("submit", async (event) => {
    event.preventDefault();
    controller = new AbortController();
    isRunning(true);
    result.textContent = "";
    panel.say("Generating …");
    const max_length = Number(panel.part("length").value);
    const body = { text: panel.part("text").value, max_length, stream: true, model: panel.model.name };
    try {
      for await (const part of readEvents(await send("generate", body, controller.signal))) {
        if (part.error) throw new Error(part.error);
        if (part.done) result.textContent = part.text;
        else result.append(part.text);
      }
      panel.say("");
    } catch (error) {
      const isStopped = error.name === "AbortError";
      panel.say(isStopped ? "Stopped." : error.message, !isStopped);
    }
    isRunning(false);
  });
  return panel;
}

/** The data of server-sent events, each of them JSON. */
async function* readEvents(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const events = (rest + value).replaceAll("\r", "").split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const lines = event.split("\n").filter((line) => line.startsWith("data:"));
      if (lines.length) yield JSON.parse(lines.map((line) => line.slice(5)).join("\n"));
    }
  }
}
