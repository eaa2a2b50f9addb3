// A panel is the section of one kind of model: its choice of model, its status line, its requests.

const N_BEST = 5; // texts that are shown

export class Panel {
  constructor(kind, models) {
    this.section = document.getElementById(kind).content.firstElementChild.cloneNode(true);
    this.section.id = `panel-${kind}`;
    for (const label of this.section.querySelectorAll("[data-label]")) {
      const control = this.part(label.dataset.label);
      label.htmlFor = control.id = `${kind}-${label.dataset.label}`;
    }
    const heading = this.section.querySelector("h2");
    const row = element("div", { className: "heading" });
    heading.replaceWith(row);
    this.choice = element("select", { ariaLabel: "Model" });
    row.append(heading, this.choice);
    this.offer(models);
  }

  /** Offers these models, of the same kind; the chosen one stays chosen. */
  offer(models) {
    const { value } = this.choice;
    this.models = models;
    this.choice.replaceChildren(...models.map(({ name }) => element("option", { textContent: name })));
    this.choice.selectedIndex = Math.max(models.findIndex(({ name }) => name === value), 0);
    this.choice.disabled = models.length < 2;
  }

  get model() {
    return this.models[this.choice.selectedIndex];
  }

  /** How many texts are asked for: not more than the model has. */
  get nBest() {
    return Math.min(N_BEST, this.model.n_best ?? N_BEST);
  }

  part(name) {
    return this.section.querySelector(`[data-part="${name}"]`);
  }

  say(message, isError = false) {
    const status = this.part("status");
    status.textContent = message;
    status.classList.toggle("error", isError);
  }

  /** A function that runs work(signal, …); a new call aborts the work of the call before. */
  latest(work) {
    let controller;
    return async (...inputs) => {
      controller?.abort();
      const own = (controller = new AbortController());
      this.section.classList.add("busy");
      if (this.part("status").classList.contains("error")) this.say("");
      try {
        await work(own.signal, ...inputs);
      } catch (error) {
        if (own === controller && error.name !== "AbortError") this.say(error.message, true);
      } finally {
        if (own === controller) this.section.classList.remove("busy");
      }
    };
  }

  /** Calls work(signal, text) when typing pauses, and when another model is chosen. */
  whenTyped(work, pause = 300) {
    const run = this.latest(work), text = this.part("text");
    let timer;
    text.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(() => run(text.value.trim()), pause);
    });
    this.choice.addEventListener("change", () => run(text.value.trim()));
  }

  /** The best texts with their scores; hidden unless there are several. */
  showBest(texts) {
    this.part("n_best").hidden = texts.length < 2;
    this.part("list").replaceChildren(...texts.map(({ text, score }) => {
      const item = element("li", { dir: "auto", textContent: text || "(empty)" });
      item.append(element("span", { className: "score", textContent: score?.toFixed(2).replace("-", "−") ?? "" }));
      return item;
    }));
  }

  /** Classes with bars as long as their probabilities. */
  showBars(classes) {
    this.part("bars").replaceChildren(...classes.map(({ label, score }) => {
      const item = element("li"), track = element("span", { className: "track" });
      const bar = element("span", { className: "bar" });
      bar.style.setProperty("--weight", score);
      track.append(bar);
      item.append(element("span", { className: "name", textContent: label }), track);
      item.append(element("span", { className: "percent", textContent: percent(score) }));
      return item;
    }));
  }
}

export function element(name, properties = {}) {
  return Object.assign(document.createElement(name), properties);
}

export function percent(score) {
  return `${(100 * score).toFixed(score < 0.1 ? 1 : 0)} %`;
}
