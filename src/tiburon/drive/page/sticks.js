// Input of the operator: keys, gamepads and sliders as sticks from -1 to 1.

export const KEYS = {
  KeyW: ["surge", 1], KeyS: ["surge", -1], KeyA: ["sway", 1], KeyD: ["sway", -1], KeyR: ["heave", 1], KeyF: ["heave", -1],
  KeyQ: ["yaw", 1], KeyE: ["yaw", -1], ArrowUp: ["pitch", 1], ArrowDown: ["pitch", -1], ArrowRight: ["roll", 1], ArrowLeft: ["roll", -1],
};
const JOINT_KEYS = { KeyL: 1, KeyJ: -1 };
const DEAD_BAND = 0.12; // of gamepad sticks

const live = (value) => (Math.abs(value) < DEAD_BAND ? 0 : (value - Math.sign(value) * DEAD_BAND) / (1 - DEAD_BAND));

export class Sticks {
  // `axes` and `joints` are names of sticks; `actions` are called for keys and buttons that switch something.
  constructor(axes, joints, actions) {
    this.axes = axes;
    this.joints = joints;
    this.actions = actions;
    this.chosen = 0;
    this.pressed = new Set();
    this.sliders = new Map();
    this.buttons = [];
    this.pad = "";
    window.addEventListener("keydown", (event) => this.press(event));
    window.addEventListener("keyup", (event) => this.pressed.delete(event.code));
    // release all when the page loses focus
    window.addEventListener("blur", () => this.letGo());
    document.addEventListener("visibilitychange", () => { if (document.hidden) this.letGo(); });
  }

  letGo() {
    this.pressed.clear();
  }

  press(event) {
    const typing = event.target instanceof HTMLInputElement && event.target.type === "number";
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.code in KEYS || event.code in JOINT_KEYS) {
      this.pressed.add(event.code);
      event.preventDefault();
      return;
    }
    if (event.repeat) return;
    const digit = /^Digit([1-9])$/.exec(event.code);
    if (digit) this.choose(Number(digit[1]) - 1);
    else if (event.code in this.actions) {
      this.actions[event.code]();
      event.preventDefault();
    }
  }

  choose(index) {
    if (this.joints.length) this.chosen = Math.max(0, Math.min(this.joints.length - 1, index));
  }

  // Reads all inputs and returns the sticks by name.
  read() {
    const found = Object.fromEntries([...this.axes, ...this.joints].map((name) => [name, this.sliders.get(name) ?? 0]));
    const push = (name, value) => { if (name in found) found[name] = Math.max(-1, Math.min(1, found[name] + value)); };
    for (const code of this.pressed) {
      if (code in KEYS) push(...KEYS[code]);
      else push(this.joints[this.chosen], JOINT_KEYS[code]);
    }
    this.readPad(push);
    return found;
  }

  readPad(push) {
    const pads = navigator.getGamepads ? navigator.getGamepads() : [];
    const pad = [...pads].find((one) => one && one.connected);
    this.pad = pad ? pad.id : "";
    if (!pad) return;
    const [x = 0, y = 0, turn = 0, up = 0] = pad.axes.map(live);
    push("surge", -y);
    push("sway", -x);
    push("yaw", -turn);
    push("heave", -up);
    const value = (k) => pad.buttons[k]?.value ?? 0;
    push(this.joints[this.chosen], value(7) - value(6));
    const down = pad.buttons.map((button) => button.pressed);
    const clicked = (k) => down[k] && !this.buttons[k];
    if (clicked(4)) this.choose(this.chosen - 1);
    if (clicked(5)) this.choose(this.chosen + 1);
    if (clicked(0)) this.actions.KeyT?.();
    if (clicked(1)) this.actions.KeyG?.();
    if (clicked(9)) this.actions.Space?.();
    this.buttons = down;
  }
}
