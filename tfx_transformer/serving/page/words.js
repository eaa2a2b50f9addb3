// Subwords joined to words, and rows of words that light up.

import { element } from "./panel.js";

// scripts that write no spaces: each subword counts as a word
const NO_SPACES = /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Thai}\p{sc=Lao}\p{sc=Khmer}\p{sc=Myanmar}]/u;
const CONTROL = /^(<s>|<\/s>|<pad>|\[CLS\]|\[SEP\]|\[PAD\])$/;

/** SentencePiece subwords → [{text, pieces: [their indices]}], without control pieces. */
export function joinWords(pieces) {
  const words = [];
  pieces.forEach((piece, index) => {
    if (CONTROL.test(piece)) return;
    if (!words.length || piece.startsWith("▁") || NO_SPACES.test(piece)) {
      words.push({ bytes: [], pieces: [] });
    }
    const byte = /^<0x([0-9A-F]{2})>$/.exec(piece); // a part of a rare character
    const bytes = byte ? [parseInt(byte[1], 16)] : new TextEncoder().encode(piece);
    words.at(-1).bytes.push(...bytes);
    words.at(-1).pieces.push(index);
  });
  const decode = (bytes) => new TextDecoder().decode(new Uint8Array(bytes)).replaceAll("▁", " ").trim();
  return words
    .map(({ bytes, pieces }) => ({ text: decode(bytes), pieces }))
    .filter(({ text }) => text);
}

/** Weights between subwords [T][S] → between words: the sum over the source, the mean over the target. */
export function joinWeights(weights, targets, sources) {
  return targets.map((target) => sources.map((source) => {
    let sum = 0;
    for (const t of target.pieces) for (const s of source.pieces) sum += weights[t][s];
    return sum / target.pieces.length;
  }));
}

/** A row of words; `choose(index)` is called when one is pointed at, focused or tapped, with null after. */
export class Words {
  constructor(container, choose) {
    this.container = container;
    this.choose = choose;
    this.pinned = null;
  }

  show(words) {
    this.pinned = null;
    this.buttons = words.map(({ text }, index) => {
      const button = element("button", { type: "button", className: "word", textContent: text });
      const enter = () => this.choose(index), leave = () => this.choose(this.pinned);
      button.addEventListener("pointerenter", enter);
      button.addEventListener("focus", enter);
      button.addEventListener("pointerleave", leave);
      button.addEventListener("blur", leave);
      button.addEventListener("click", () => {
        this.pinned = this.pinned === index ? null : index;
        this.choose(this.pinned ?? index);
      });
      return button;
    });
    this.container.replaceChildren(...this.buttons);
  }

  /** Colors each word by its weight in 0 … 1, and frames the chosen one. */
  light(weights, chosen = null) {
    this.buttons.forEach((button, index) => {
      button.style.setProperty("--weight", weights?.[index] ?? 0);
      button.classList.toggle("chosen", index === chosen);
    });
  }
}
