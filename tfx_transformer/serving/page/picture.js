// A picture by file, drop, paste or camera, and a heat map over the region that the model saw.

import { element } from "./panel.js";

const READABLE = ["image/jpeg", "image/png", "image/gif", "image/bmp", "image/webp"]; // by the server
const LARGEST_FILE = 8e6; // bytes; larger ones are sent smaller
const LARGEST_SIDE = 2048;
const SHOWN_SIDE = 720;
const COLORS = [[106, 23, 110], [221, 81, 58], [252, 165, 10], [252, 255, 164]]; // low to high

export class Picture {
  /** `changed(base64)` is called with the content of each new file. */
  constructor(container, changed, failed) {
    const root = document.getElementById("picture").content.firstElementChild.cloneNode(true);
    container.append(root);
    const find = (selector) => root.querySelector(selector);
    Object.assign(this, { changed, failed, canvas: find("canvas"), invitation: find(".invitation") });
    this.opacity = find(".opacity");
    this.opacity.addEventListener("input", () => this.draw());
    find(".file").addEventListener("change", (event) => this.take(event.target.files[0]));
    this.acceptDrops(find(".drop"));
    this.offerCamera(find(".camera"), find("dialog"));
  }

  acceptDrops(area) {
    const isOver = (value) => (event) => {
      event.preventDefault();
      area.classList.toggle("over", value);
    };
    area.addEventListener("dragover", isOver(true));
    area.addEventListener("dragleave", isOver(false));
    area.addEventListener("drop", (event) => {
      isOver(false)(event);
      this.take(event.dataTransfer.files[0]);
    });
    document.addEventListener("paste", (event) => this.take(event.clipboardData?.files[0]));
  }

  offerCamera(button, dialog) {
    const video = dialog.querySelector("video");
    const stop = () => video.srcObject?.getTracks().forEach((track) => track.stop());
    button.hidden = !navigator.mediaDevices?.getUserMedia;
    button.addEventListener("click", async () => {
      try {
        video.srcObject = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } });
        dialog.showModal();
      } catch (error) {
        this.failed(`The camera cannot be used: ${error.message}`);
      }
    });
    dialog.addEventListener("close", stop);
    dialog.querySelector(".cancel").addEventListener("click", () => dialog.close());
    dialog.querySelector(".snap").addEventListener("click", async () => {
      const picture = await createImageBitmap(video);
      dialog.close();
      this.take(await encode(picture));
    });
  }

  async take(file) {
    if (!file) return;
    try {
      this.bitmap = await createImageBitmap(file);
    } catch {
      return this.failed(`${file.name ?? "This file"} is not a picture that this browser can read.`);
    }
    const isSent = READABLE.includes(file.type) && file.size <= LARGEST_FILE;
    const sent = isSent ? file : await encode(this.bitmap);
    this.canvas.hidden = false;
    this.canvas.ariaLabel = file.name || "The picture";
    this.invitation.hidden = true;
    this.show(null);
    this.changed(await toBase64(sent));
  }

  /** A heat map of weights [R][S] over the region of the model's options; null shows none. */
  show(weights, options = {}) {
    this.opacity.hidden = this.opacity.hidden && !weights;
    this.weights = weights;
    this.options = options;
    this.draw();
  }

  draw() {
    const { width, height } = this.bitmap, scale = SHOWN_SIDE / Math.max(width, height);
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(height * scale);
    const context = this.canvas.getContext("2d");
    context.imageSmoothingEnabled = scale < 4; // pixels of tiny pictures stay sharp
    context.drawImage(this.bitmap, 0, 0, this.canvas.width, this.canvas.height);
    if (!this.weights) return;
    const { left, top, wide, high } = seenRegion(width, height, this.options);
    context.imageSmoothingEnabled = true;
    context.imageSmoothingQuality = "high";
    context.globalAlpha = Number(this.opacity.querySelector("input").value);
    context.drawImage(heatMap(this.weights), left * scale, top * scale, wide * scale, high * scale);
    context.globalAlpha = 1;
  }
}

/** The part of a picture that a model saw: see `resize_and_crop` in data/images/pixels.py. */
function seenRegion(width, height, { resize = "crop", crop_ratio = 1 }) {
  const short = Math.min(width, height), long = Math.max(width, height);
  const square = { crop: [short, short], pad: [long, long], squash: [width, height] }[resize];
  const [wide, high] = square.map((side) => side * crop_ratio);
  return { left: (width - wide) / 2, top: (height - high) / 2, wide, high };
}

/** A small canvas with a pixel for each weight: the lowest is transparent, the highest bright. */
function heatMap(weights) {
  const canvas = element("canvas", { width: weights[0].length, height: weights.length });
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  const values = weights.flat(), low = Math.min(...values), high = Math.max(...values);
  values.forEach((value, index) => {
    const level = (value - low) / (high - low || 1), place = level * (COLORS.length - 1);
    const below = Math.min(Math.floor(place), COLORS.length - 2), part = place - below;
    const color = COLORS[below].map((c, i) => c + part * (COLORS[below + 1][i] - c));
    image.data.set([...color, 255 * Math.sqrt(level)], 4 * index);
  });
  context.putImageData(image, 0, 0);
  return canvas;
}

/** A bitmap as JPEG, not larger than needed. */
function encode(bitmap) {
  const scale = Math.min(1, LARGEST_SIDE / Math.max(bitmap.width, bitmap.height));
  const canvas = element("canvas", { width: bitmap.width * scale, height: bitmap.height * scale });
  canvas.getContext("2d").drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/jpeg", 0.92));
}

function toBase64(blob) {
  return new Promise((resolve) => {
    const reader = new FileReader();
    reader.addEventListener("load", () => resolve(reader.result.split(",")[1]));
    reader.readAsDataURL(blob);
  });
}
