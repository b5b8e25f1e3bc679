// The control desk at the right: modes, buttons, sliders, gains and parameters.

const make = (parent, tag, text = "") => {
  const node = document.createElement(tag);
  node.textContent = text;
  parent.append(node);
  return node;
};
const words = (name) => name.replace(/^joint\./, "").replaceAll("_", " ");
const DIRECTIONS = {
  surge: "ahead, astern", sway: "left, right", heave: "up, down", yaw: "turn", pitch: "nose down, up", roll: "tilt",
};

// Fills the track of a slider from zero to its value.
const paint = (input) => {
  const [low, high] = [Number(input.min), Number(input.max)];
  const place = (value) => (100 * (value - low)) / (high - low);
  const [from, to] = [place(0), place(Number(input.value))].sort((a, b) => a - b);
  input.style.setProperty("--from", `${from}%`);
  input.style.setProperty("--to", `${to}%`);
};

const HELP = [
  ["W S", "ahead, astern"], ["A D", "left, right"], ["R F", "up, down"], ["Q E", "turn left, right"],
  ["arrows", "pitch, roll"], ["1–9, J L", "choose a joint, move it"], ["T", "station keeping"], ["G", "hold joints"],
  ["space", "pause"], [". ", "single step"], ["V B", "remember state, return to it"], ["X", "record run"], ["home", "back to start"], ["C", "camera"],
  ["gamepad", "sticks: move and turn; triggers: joint; shoulders: choose it; A: station; B: hold; start: pause"],
];

export class Desk {
  constructor(welcome, sticks, send) {
    this.send = send;
    this.sticks = sticks;
    this.rows = new Map();
    this.toggles = new Map();
    this.fillModes(welcome);
    this.fillButtons();
    this.fillSticks(document.getElementById("sticks"), [...sticks.axes, ...sticks.joints]);
    this.fillSingles(welcome);
    this.fillGains(welcome);
    this.fillParameters(welcome);
    const list = make(document.getElementById("help"), "dl");
    for (const [keys, what] of HELP) {
      make(list, "dt", keys);
      make(list, "dd", what);
    }
  }

  toggle(parent, name, title, act, hot = false) {
    const button = make(parent, "button", title);
    button.setAttribute("aria-pressed", "false");
    button.classList.toggle("hot", hot);
    button.addEventListener("click", () => { act(); button.blur(); });
    this.toggles.set(name, button);
  }

  pressed(name) {
    return this.toggles.get(name)?.getAttribute("aria-pressed") === "true";
  }

  switchMode(name) {
    if (this.toggles.has(name)) this.send({ type: "command", values: { [name]: this.pressed(name) ? 0 : 1 } });
  }

  fillModes(welcome) {
    const modes = document.getElementById("modes");
    if ("station" in welcome.short) this.toggle(modes, "station", "Station keeping (T)", () => this.switchMode("station"));
    if ("arm_hold" in welcome.short) this.toggle(modes, "arm_hold", "Hold joints (G)", () => this.switchMode("arm_hold"));
  }

  fillButtons() {
    const buttons = document.getElementById("buttons");
    const plain = (title, act, about) => {
      const button = make(buttons, "button", title);
      button.title = about;
      button.addEventListener("click", () => { act(); button.blur(); });
    };
    this.toggle(buttons, "paused", "Pause", () => this.pause());
    plain("Single step", () => this.step(), "advance the paused simulation by one time step");
    this.toggle(buttons, "slow", "Slow motion", () => this.send({ type: "speed", value: this.pressed("slow") ? 1 : 0.2 }));
    plain("Back to start", () => this.reset(), "the state in which the simulation began");
    plain("Remember state", () => this.send({ type: "snapshot" }), "keep positions and velocities of this moment");
    plain("Return to it", () => this.send({ type: "restore" }), "the state that was remembered");
    this.toggle(buttons, "recording", "Record run", () => this.record(), true);
    plain("Save robot file", () => this.send({ type: "save" }), "the robot with its present masses, volumes and drag");
    plain("Release all controls", () => this.release(), "sticks, thrusters and pushes to zero; another page may steer");
  }

  pause() { this.send({ type: "pause", on: !this.pressed("paused") }); }

  step() { this.send({ type: "step" }); }

  record() { this.send({ type: "record", on: !this.pressed("recording") }); }

  release() {
    this.center();
    this.send({ type: "release" });
  }

  reset() {
    this.center();
    this.send({ type: "reset" });
  }

  // Resets all sliders without a message for each.
  center() {
    for (const [, { input, show }] of this.rows) {
      input.value = 0;
      show();
    }
    this.sticks.sliders.clear();
    this.sticks.letGo();
  }

  slider(parent, name, title, low, high, changed, springs, unit = "") {
    const row = make(parent, "div");
    row.className = unit ? "row measured" : "row";
    const label = make(row, "label", title);
    label.title = title;
    const input = make(row, "input");
    Object.assign(input, { type: "range", min: low, max: high, step: "any", value: 0 });
    input.setAttribute("aria-label", unit ? `${title} [${unit}]` : title);
    if (unit) input.title = "double click: back to zero";
    const digits = high > 20 ? 0 : high > 2 ? 1 : high > 0.2 || !unit ? 2 : 4;
    const output = make(row, "output", "");
    const show = () => {
      output.textContent = `${Number(input.value).toFixed(digits).replace(/^-(0\.?0*)$/, "$1")}${unit && " "}${unit}`;
      paint(input);
    };
    show();
    input.addEventListener("input", () => { show(); changed(Number(input.value)); });
    const home = () => { input.value = 0; input.dispatchEvent(new Event("input")); };
    input.addEventListener("dblclick", home);
    // sticks return to zero when released
    if (springs) for (const kind of ["pointerup", "pointercancel", "blur"]) input.addEventListener(kind, home);
    this.rows.set(name, { row, input, output, show });
  }

  fillSticks(parent, names) {
    for (const name of names) {
      const title = name in DIRECTIONS ? `${name}: ${DIRECTIONS[name]}` : words(name);
      this.slider(parent, name, title, -1, 1, (value) => this.sticks.sliders.set(name, value), true);
    }
  }

  fillSingles(welcome) {
    const thrusters = Object.entries(welcome.thrusters).map(([name, [low, high]]) => ({ name, low, high, unit: "N" }));
    const pushes = welcome.external_forces.map(({ name, most, unit }) => ({ name, low: -most, high: most, unit }));
    for (const [id, list] of Object.entries({ thrusters, pushes })) {
      const parent = document.getElementById(id);
      // hide empty sections
      parent.parentElement.hidden = !list.length;
      for (const { name, low, high, unit } of list) {
        const changed = (value) => this.send({ type: "command", values: { [name]: value } });
        this.slider(parent, `${id} ${name}`, words(name), low, high, changed, false, unit);
      }
    }
  }

  field(parent, title, value, unit, changed) {
    const row = make(parent, "div");
    row.className = "row pair";
    make(row, "label", title).title = title;
    const input = make(row, "input");
    Object.assign(input, { type: "number", step: "any", value: Number(value.toPrecision(6)) });
    input.setAttribute("aria-label", title);
    make(row, "output", unit);
    input.addEventListener("change", () => { if (input.value !== "") changed(Number(input.value)); });
    return input;
  }

  fillGains(welcome) {
    const units = { station_frequency: "rad/s", speed: "m/s", turn_rate: "rad/s", arm_frequency: "rad/s", arm_rate: "rad/s" };
    for (const [name, unit] of Object.entries(units)) {
      if (name in welcome.short) {
        this.field(document.getElementById("gains"), words(name), welcome.short[name], unit, (value) => this.send({ type: "command", values: { [name]: value } }));
      }
    }
  }

  fillParameters(welcome) {
    for (const { name, value, unit } of welcome.parameters) {
      this.field(document.getElementById("parameters"), words(name.replace(".", " of ")), value, unit, (number) => this.send({ type: "edit", values: { [name]: number } }));
    }
  }

  show(state) {
    const press = (name, on) => this.toggles.get(name)?.setAttribute("aria-pressed", String(Boolean(on)));
    press("station", state.commands["panel.station"] > 0.5);
    press("arm_hold", state.commands["panel.arm_hold"] > 0.5);
    press("paused", state.paused);
    press("slow", state.time_scale < 1);
    press("recording", state.recording);
    this.sticks.joints.forEach((name, index) => this.rows.get(name)?.row.classList.toggle("chosen", index === this.sticks.chosen));
  }

  // Shows the input of keys and gamepad on the sliders.
  mirror(held) {
    for (const [name, value] of Object.entries(held)) {
      const row = this.rows.get(name);
      if (!row || document.activeElement === row.input) continue;
      row.output.textContent = value.toFixed(2);
      if (this.sticks.sliders.get(name)) continue;
      row.input.value = value;
      paint(row.input);
    }
  }
}
