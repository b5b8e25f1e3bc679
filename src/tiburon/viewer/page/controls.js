// Buttons, sliders and keys; texts are untrusted and only ever set as text content.

import { MODES } from "./camera.js";

const SPEEDS = [0.1, 0.25, 0.5, 1, 2, 4, 8];
const NAMES = {
  frames: "Frames", labels: "Labels", forces: "Forces", contacts: "Contacts", trails: "Trails", centers: "Centers", water: "Water",
};

export class Controls {
  constructor(record, player, rig, mounts, switchOverlay) {
    this.player = player;
    this.version = 0; // incremented by every switch
    this.elements = Object.fromEntries(["play", "scrub", "clock", "speed", "camera", "mount", "panel", "strip", "strip-toggle"]
      .map((id) => [id, document.getElementById(id)]));
    const [heading, about] = document.getElementById("heading").children;
    heading.textContent = record.title;
    about.textContent = record.about;
    this.about = about;
    this.captions = [[-Infinity, record.about], ...(record.captions ?? [])];
    this.rig = rig;
    this.buildOverlays(record, switchOverlay);
    this.buildPlayer(record);
    this.buildCamera(mounts);
    window.addEventListener("keydown", (event) => this.key(event));
  }

  buildOverlays(record, switchOverlay) {
    const on = new Set(record.show);
    const usable = {
      frames: true,
      labels: true,
      forces: record.robots.some((robot) => robot.forces.length || robot.thrust),
      contacts: record.robots.some((robot) => robot.contacts),
      trails: this.player.moves,
      centers: record.robots.some((robot) => robot.bodies.some((body) => body.mass > 0)),
      water: record.surroundings.water !== null,
    };
    const list = document.getElementById("overlays");
    for (const [kind, name] of Object.entries(NAMES)) {
      switchOverlay(kind, on.has(kind));
      if (!usable[kind]) continue;
      const button = document.createElement("button");
      button.textContent = name;
      button.dataset.overlay = kind;
      button.setAttribute("aria-pressed", String(on.has(kind)));
      button.addEventListener("click", () => {
        const next = button.getAttribute("aria-pressed") !== "true";
        button.setAttribute("aria-pressed", String(next));
        this.version += 1;
        switchOverlay(kind, next);
      });
      list.append(button);
    }
  }

  buildPlayer(record) {
    const { play, scrub, speed, panel, strip } = this.elements;
    panel.hidden = false;
    if (!this.player.moves) panel.classList.add("still");
    strip.hidden = record.plots.length === 0 || window.innerHeight < 420;
    scrub.max = String(this.player.duration);
    scrub.addEventListener("input", () => this.player.seek(Number(scrub.value)));
    play.addEventListener("click", () => this.player.toggle());
    const speeds = SPEEDS.includes(record.speed) ? SPEEDS : [...SPEEDS, record.speed].sort((a, b) => a - b);
    for (const factor of speeds) speed.add(new Option(`${factor}×`, String(factor)));
    speed.value = String(record.speed);
    speed.addEventListener("change", () => { this.player.speed = Number(speed.value); });
    const toggle = this.elements["strip-toggle"];
    toggle.hidden = record.plots.length === 0;
    toggle.addEventListener("click", () => { strip.hidden = !strip.hidden; });
  }

  buildCamera(mounts) {
    const { camera, mount } = this.elements;
    const titles = { orbit: "Orbit", follow: "Follow", "on-board": "On board" };
    for (const mode of MODES) camera.add(new Option(titles[mode], mode));
    mounts.forEach((place, k) => mount.add(new Option(place.name, String(k))));
    camera.addEventListener("change", () => this.setCamera(camera.value));
    mount.addEventListener("change", () => {
      this.mountChosen = Number(mount.value);
      this.version += 1;
    });
    this.mountChosen = Math.max(0, mounts.findIndex((place) => place.preferred));
    mount.value = String(this.mountChosen);
    this.setCamera(this.rig.mode);
  }

  setCamera(mode) {
    this.rig.setMode(mode, this.player.center);
    this.elements.camera.value = mode;
    this.elements.mount.hidden = mode !== "on-board";
  }

  key(event) {
    if (event.target instanceof HTMLSelectElement || event.ctrlKey || event.metaKey || event.altKey) return;
    const steps = { ArrowLeft: -1, ArrowRight: 1 };
    if (event.code === "Space") this.player.toggle();
    else if (event.key in steps) this.player.seek(this.player.time + steps[event.key] * Math.max(this.player.duration / 100, 1 / 30));
    else if (["1", "2", "3"].includes(event.key)) this.setCamera(MODES[Number(event.key) - 1]);
    else if (event.key === "Home") this.player.seek(0);
    else return;
    event.preventDefault();
  }

  update() {
    const { play, scrub, clock } = this.elements;
    play.classList.toggle("playing", this.player.playing);
    scrub.value = String(this.player.time);
    scrub.style.setProperty("--done", `${(100 * this.player.time) / (this.player.duration || 1)}%`);
    const digits = this.player.duration < 1 ? 3 : 2;
    const end = (this.player.start + this.player.duration).toFixed(digits);
    const now = this.player.start + this.player.time;
    clock.textContent = `${now.toFixed(digits)} / ${end} s`;
    const caption = this.captions.findLast(([from]) => from <= now + 1e-9)[1];
    if (this.about.textContent !== caption) this.about.textContent = caption;
  }
}
