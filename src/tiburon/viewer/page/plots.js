// Plots below the scene, with a cursor at the playback time.

const COLORS = ["#5aa9e6", "#ffb454", "#7bd389", "#ff6b6b", "#c49bff", "#5fd3c8", "#f29fc5", "#b0bec5"];
const EDGE = { left: 58, right: 14, top: 8, bottom: 18 };

// Returns round tick positions of an axis.
function marks(low, high, count) {
  const raw = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= raw);
  const found = [];
  for (let k = Math.ceil(low / step); k * step <= high + 1e-9 * step; k++) found.push(k * step);
  return { found, digits: Math.max(0, Math.min(6, -Math.floor(Math.log10(step) + 1e-9))) };
}

function shortNumber(value, digits) {
  const size = Math.abs(value);
  return size >= 1e5 || (size > 0 && size < 1e-4) ? value.toExponential(1) : value.toFixed(digits);
}

export class PlotStrip {
  constructor(record, times, tables, seek) {
    this.canvas = document.getElementById("plot");
    this.choice = document.getElementById("plot-choice");
    this.legend = document.getElementById("legend");
    this.times = times;
    this.start = record.start;
    this.plots = record.plots.map((plot) => ({ ...plot, values: tables.read(plot.data) }));
    this.background = document.createElement("canvas");
    this.plots.forEach((plot, k) => this.choice.add(new Option(plot.title, String(k))));
    this.choice.addEventListener("change", () => this.choose(Number(this.choice.value)));
    const go = (event) => {
      if (event.type === "pointermove" && event.buttons === 0) return;
      const box = this.canvas.getBoundingClientRect();
      const share = (event.clientX - box.left - EDGE.left) / (box.width - EDGE.left - EDGE.right);
      seek(Math.min(1, Math.max(0, share)) * this.times[this.times.length - 1]);
    };
    for (const kind of ["pointerdown", "pointermove"]) this.canvas.addEventListener(kind, go);
    if (this.plots.length) {
      // plots that change come first
      const index = Math.max(0, this.plots.findIndex(({ values, labels }) => values.some((value, k) => k >= labels.length
        && Math.abs(value - values[k % labels.length]) > 1e-3 * Math.max(1, Math.abs(value)))));
      this.choice.value = String(index);
      this.choose(index);
    }
  }

  choose(index) {
    this.plot = this.plots[index];
    this.hidden = new Set();
    this.legend.replaceChildren(...this.plot.labels.map((text, k) => {
      const item = document.createElement("button");
      const swatch = document.createElement("i");
      swatch.style.background = COLORS[k % COLORS.length];
      const value = document.createElement("b");
      item.append(swatch, document.createTextNode(text ? `${text} ` : ""), value);
      item.title = "show or hide this curve";
      item.addEventListener("click", () => {
        if (!this.hidden.delete(k)) this.hidden.add(k);
        item.classList.toggle("off", this.hidden.has(k));
        this.drawn = "";
      });
      return item;
    }));
    this.drawn = "";
  }

  // Draws axes and curves once per size and choice; the cursor is drawn over them at every frame.
  drawBackground(width, height, ratio) {
    const { labels, values } = this.plot;
    const count = labels.length;
    let low = Infinity;
    let high = -Infinity;
    for (let i = 0; i < values.length; i++) {
      if (this.hidden.has(i % count) || !Number.isFinite(values[i])) continue;
      low = Math.min(low, values[i]);
      high = Math.max(high, values[i]);
    }
    if (!(low <= high)) [low, high] = [0, 1];
    const largest = Math.max(Math.abs(low), Math.abs(high));
    // a minimum range, so that rounding noise is drawn as a straight line
    const flat = high - low <= 1e-6 * largest;
    const margin = flat ? Math.max(0.2 * largest, 0.1) : 0.06 * (high - low);
    this.scale = { low: low - margin, high: high + margin };
    Object.assign(this.background, { width: width * ratio, height: height * ratio });
    const pen = this.background.getContext("2d");
    pen.scale(ratio, ratio);
    pen.font = "11px system-ui, sans-serif";
    pen.lineWidth = 1;
    const end = this.times[this.times.length - 1];
    const x = (time) => EDGE.left + (time / end) * (width - EDGE.left - EDGE.right);
    const y = (value) => height - EDGE.bottom
      - ((value - this.scale.low) / (this.scale.high - this.scale.low)) * (height - EDGE.top - EDGE.bottom);
    pen.strokeStyle = "rgba(255, 255, 255, 0.10)";
    pen.fillStyle = "rgba(255, 255, 255, 0.55)";
    const vertical = marks(this.scale.low, this.scale.high, 4);
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    for (const value of vertical.found) {
      pen.beginPath();
      pen.moveTo(EDGE.left, y(value));
      pen.lineTo(width - EDGE.right, y(value));
      pen.stroke();
      pen.fillText(shortNumber(value, vertical.digits), EDGE.left - 6, y(value));
    }
    const horizontal = marks(this.start, this.start + end, Math.max(2, width / 110));
    pen.textAlign = "center";
    pen.textBaseline = "alphabetic";
    for (const value of horizontal.found) {
      pen.fillText(`${shortNumber(value, horizontal.digits)} s`, x(value - this.start), height - 4);
    }
    pen.lineWidth = 1.6;
    pen.lineJoin = "round";
    for (let k = 0; k < count; k++) {
      if (this.hidden.has(k)) continue;
      pen.strokeStyle = COLORS[k % COLORS.length];
      pen.beginPath();
      let down = false;
      for (let i = 0; i < this.times.length; i++) {
        const value = values[i * count + k];
        if (!Number.isFinite(value)) {
          down = false;
          continue;
        }
        if (down) pen.lineTo(x(this.times[i]), y(value));
        else pen.moveTo(x(this.times[i]), y(value));
        down = true;
      }
      pen.stroke();
    }
  }

  update(time, { first, second, share }) {
    if (!this.plot) return;
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (!width || !height) return;
    const ratio = window.devicePixelRatio || 1;
    const wanted = `${width} ${height} ${ratio}`;
    if (wanted !== this.drawn) {
      this.drawn = wanted;
      Object.assign(this.canvas, { width: width * ratio, height: height * ratio });
      this.drawBackground(width, height, ratio);
    }
    const pen = this.canvas.getContext("2d");
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, this.canvas.width, this.canvas.height);
    pen.drawImage(this.background, 0, 0);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    const x = EDGE.left + (time / this.times[this.times.length - 1]) * (width - EDGE.left - EDGE.right);
    pen.strokeStyle = "rgba(255, 255, 255, 0.85)";
    pen.lineWidth = 1.2;
    pen.beginPath();
    pen.moveTo(x, EDGE.top);
    pen.lineTo(x, height - EDGE.bottom);
    pen.stroke();
    const count = this.plot.labels.length;
    for (let k = 0; k < count; k++) {
      const value = (1 - share) * this.plot.values[first * count + k] + share * this.plot.values[second * count + k];
      this.legend.children[k].lastChild.textContent = Number.isFinite(value) ? shortNumber(value, 3) : "–";
      if (this.hidden.has(k) || !Number.isFinite(value)) continue;
      const y = height - EDGE.bottom
        - ((value - this.scale.low) / (this.scale.high - this.scale.low)) * (height - EDGE.top - EDGE.bottom);
      pen.fillStyle = COLORS[k % COLORS.length];
      pen.beginPath();
      pen.arc(x, y, 3.2, 0, 2 * Math.PI);
      pen.fill();
    }
  }
}
