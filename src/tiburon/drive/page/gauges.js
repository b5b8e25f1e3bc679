// Instruments: readings and bars.

const make = (parent, tag, name = "", text = "") => {
  const node = document.createElement(tag);
  if (name) node.className = name;
  node.textContent = text;
  parent.append(node);
  return node;
};

// Fixed-point text of a number, without a negative zero.
const fixed = (value, digits) => value.toFixed(digits).replace(/^-(0\.?0*)$/, "$1");

class Dial {
  constructor(parent, title, unit) {
    this.node = make(parent, "div", "dial");
    make(this.node, "small", "", title);
    this.value = make(this.node, "b", "", "–");
    make(this.node, "i", "", unit ? ` ${unit}` : "");
  }

  show(text, alarm = false) {
    this.value.textContent = text;
    this.node.classList.toggle("alarm", alarm);
  }
}

class Bar {
  constructor(parent, kind, title, unit, most) {
    this.node = make(parent, "div", `bar ${kind}`);
    make(this.node, "span", "", title).title = title;
    this.fill = make(make(this.node, "div"), "i");
    this.value = make(this.node, "output");
    this.unit = unit;
    this.most = most;
  }

  show(value) {
    // a bar without a known range grows with its values
    this.most = Math.max(this.most, Math.abs(value), 1e-9);
    const share = (50 * Math.abs(value)) / this.most;
    this.fill.style.left = `${value < 0 ? 50 - share : 50}%`;
    this.fill.style.width = `${share}%`;
    this.value.textContent = `${fixed(value, Math.abs(value) >= 100 ? 0 : 1)} ${this.unit}`;
  }
}

const MAX_BARS = 24;

export class Gauges {
  constructor(welcome) {
    const dials = document.getElementById("dials");
    const bars = document.getElementById("bars");
    this.time = new Dial(dials, "time", "s");
    this.vehicle = "station" in welcome.short ? new Dial(dials, "vehicle", "") : null;
    this.arm = "arm_hold" in welcome.short ? new Dial(dials, "joints", "") : null;
    this.depth = new Dial(dials, "depth", "m");
    this.speed = new Dial(dials, "speed", "m/s");
    this.factor = new Dial(dials, "real time", "×");
    this.misses = new Dial(dials, "deadline misses", "");
    this.lateness = new Dial(dials, "max lateness", "ms");
    this.thrust = new Map();
    this.force = new Map();
    for (const [name, [low, high]] of Object.entries(welcome.thrusters)) {
      this.thrust.set(name, new Bar(bars, "thrust", name.replaceAll("_", " "), "N", Math.max(-low, high)));
    }
    const joints = welcome.v_names.filter((name) => !/\.(w|v)[xyz]$/.test(name));
    for (const name of joints.slice(0, MAX_BARS)) {
      const unit = welcome.force_units[welcome.v_names.indexOf(name)];
      this.force.set(name, new Bar(bars, "force", name.replaceAll("_", " "), unit, welcome.strengths[name] ?? 1));
    }
  }

  show(state) {
    this.time.show(fixed(state.time, 2));
    this.vehicle?.show(state.mode.vehicle ?? "–");
    this.arm?.show(state.mode.arm ?? "–");
    this.depth.node.hidden = state.depth === undefined;
    if (state.depth !== undefined) this.depth.show(fixed(state.depth, 2));
    this.speed.node.hidden = state.speed === undefined;
    if (state.speed !== undefined) this.speed.show(fixed(state.speed, 2));
    const slow = !state.paused && state.real_time_factor < 0.97 * state.time_scale;
    this.factor.show(state.paused ? "paused" : state.real_time_factor.toFixed(2), slow && state.ticks > 2000);
    this.misses.show(`${state.deadline_misses}`, state.deadline_misses > 0);
    this.lateness.show((1e3 * state.max_lateness).toFixed(1), state.max_lateness > 1e-3);
    for (const [name, bar] of this.thrust) bar.show(state.thrust[name] ?? 0);
    for (const [name, bar] of this.force) bar.show(state.joint_force[name] ?? 0);
  }
}
