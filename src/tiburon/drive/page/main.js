// Builds the page: the scene follows states from the server, sticks are sent to it.

import * as THREE from "three";
import { Arrow } from "./arrows.js";
import { CameraRig, MODES } from "./camera.js";
import { Tables } from "./decode.js";
import { Desk } from "./desk.js";
import { Floor } from "./floor.js";
import { Gauges } from "./gauges.js";
import { Robot } from "./robot.js";
import { Sea } from "./sea.js";
import { Sky } from "./sky.js";
import { Sticks } from "./sticks.js";

const SEND_EVERY = 50; // ms between two command messages
const HOLD = 0.5; // s after which the server releases the sticks of a silent page
const DELAY = 60; // ms of display delay, for interpolation between two states
const AXES = ["surge", "sway", "heave", "yaw", "pitch", "roll"];

class Notice {
  constructor() {
    this.node = document.getElementById("notice");
    this.timer = 0;
  }

  show(text, calm = false, milliseconds = 5000) {
    this.node.textContent = text;
    this.node.classList.toggle("calm", calm);
    this.node.hidden = false;
    clearTimeout(this.timer);
    if (milliseconds) this.timer = setTimeout(() => { this.node.hidden = true; }, milliseconds);
  }

  hide() { this.node.hidden = true; }
}

// The robot, interpolated between the last two states.
class LiveRobot {
  constructor(scene, record, tables, turn) {
    this.robot = new Robot(scene, record, tables);
    this.count = 7 * record.bodies.length;
    this.robot.frames = 2;
    this.robot.poses = new Float32Array([...this.robot.poses.slice(0, this.count), ...this.robot.poses.slice(0, this.count)]);
    if (this.robot.thrust) this.robot.thrust = new Float32Array(2 * record.thrusters.length);
    this.jets = record.thrusters.map(() => new Arrow(this.robot.group, "thrust", 0.45 * record.size));
    this.touching = [];
    // half the weight has an arrow of full length
    this.usual = 0.5 * 9.81 * record.bodies.reduce((sum, body) => sum + body.mass, 0);
    this.times = [0, 1];
    this.turn = new THREE.Quaternion().setFromRotationMatrix(new THREE.Matrix4().set(
      turn[0][0], turn[0][1], turn[0][2], 0, turn[1][0], turn[1][1], turn[1][2], 0, turn[2][0], turn[2][1], turn[2][2], 0, 0, 0, 0, 1));
    this.propeller = 0;
  }

  take(state, now) {
    const { poses } = this.robot;
    poses.copyWithin(0, this.count);
    const turned = new THREE.Quaternion();
    const place = new THREE.Vector3();
    state.poses.forEach(([w, x, y, z, ...origin], index) => {
      turned.set(x, y, z, w).premultiply(this.turn);
      place.set(...origin).applyQuaternion(this.turn);
      const at = this.count + 7 * index;
      const sign = poses[at - this.count] * turned.w + poses[at - this.count + 1] * turned.x
        + poses[at - this.count + 2] * turned.y + poses[at - this.count + 3] * turned.z < 0 ? -1 : 1;
      poses.set([sign * turned.w, sign * turned.x, sign * turned.y, sign * turned.z, place.x, place.y, place.z], at);
    });
    this.times = [this.times[1], Math.max(now, this.times[1] + 1)];
    this.thrust = this.robot.record.thrusters.map(({ name }) => state.thrust[name] ?? 0);
    this.showContacts(state.contact_force ?? {}, state.contact_point ?? {});
  }

  // Draws the forces of contacts: arrows are made as they are needed.
  showContacts(forces, points) {
    const names = Object.keys(points);
    while (this.touching.length < names.length) {
      const arrow = new Arrow(this.robot.group, "contact", 0.5 * this.robot.record.size);
      Object.assign(arrow.mesh.material, { depthTest: false, transparent: true, opacity: 0.92 });
      arrow.mesh.renderOrder = 15;
      this.touching.push(arrow);
    }
    this.touching.forEach((arrow, k) => {
      if (k >= names.length) {
        arrow.hide();
        return;
      }
      const vector = (entries) => new THREE.Vector3(...entries).applyQuaternion(this.turn);
      const force = vector(forces[names[k]]).clampLength(0, 1.8 * this.usual);
      arrow.show(vector(points[names[k]]), force, this.usual);
    });
  }

  update(now) {
    this.robot.update(this.times, Math.min(now - DELAY, this.times[1]), now / 1000);
    const { record } = this.robot;
    if (!this.thrust) return;
    record.thrusters.forEach(({ body, position, direction }, k) => {
      const carrier = this.robot.carrier(body);
      const point = new THREE.Vector3(...position).applyQuaternion(carrier.quaternion).add(carrier.position);
      const force = new THREE.Vector3(...direction).applyQuaternion(carrier.quaternion).multiplyScalar(this.thrust[k]);
      this.jets[k].show(point, force, record.largestThrust);
    });
    if (this.robot.thrust) this.robot.thrust.set([...this.thrust, ...this.thrust]);
  }
}

class Picture {
  constructor(record, tables) {
    this.record = record;
    this.canvas = document.getElementById("scene");
    this.renderer = new THREE.WebGLRenderer({ canvas: this.canvas, antialias: true });
    this.renderer.setPixelRatio(Math.min(window.devicePixelRatio || 1, 2));
    this.renderer.shadowMap.enabled = true;
    this.renderer.shadowMap.type = THREE.PCFSoftShadowMap;
    this.renderer.toneMapping = THREE.NeutralToneMapping;
    this.renderer.toneMappingExposure = 1.05;
    this.scene = new THREE.Scene();
    const low = new THREE.Vector3(...record.first.low);
    const high = new THREE.Vector3(...record.first.high);
    const size = Math.max(0.5 * low.distanceTo(high), 0.02);
    this.size = size;
    this.camera = new THREE.PerspectiveCamera(38, 1, 0.02 * size, 400 * size);
    this.rig = new CameraRig(this.camera, this.canvas, low.clone().lerp(high, 0.5), 3.4 * size, size);
    this.rig.mode = "follow";
    this.sky = new Sky(this.scene, this.renderer, size);
    this.floor = new Floor(this.scene, record.surroundings, size, 24 * size, tables);
    const { water } = record.surroundings;
    this.sea = water ? new Sea(this.scene, water, size, 24 * size, tables) : null;
    if (this.floor.shown && this.floor.flat && this.floor.level) this.rig.floor = record.surroundings.floor;
    this.live = new LiveRobot(this.scene, record.robots[0], tables, record.axes);
    this.current = new THREE.Vector3();
    this.sunk = false;
    this.last = 0;
    this.slow = 0;
    this.saved = 0; // number of quality reductions
    this.cost = 0; // frame time in ms
    window.addEventListener("resize", () => this.resize());
    const covers = new ResizeObserver(() => this.resize());
    for (const id of ["gauges", "desk"]) covers.observe(document.getElementById(id));
    this.resize();
  }

  // The part of the window that controls and gauges leave free.
  free() {
    const desk = document.getElementById("desk").getBoundingClientRect();
    const gauges = document.getElementById("gauges").getBoundingClientRect();
    const [width, height] = [window.innerWidth, window.innerHeight];
    // on narrow windows they are above and below the scene, otherwise at its right and below
    if (desk.width > 0.8 * width) return { left: 0, right: width, top: gauges.bottom, bottom: desk.top };
    return { left: 0, right: desk.left, top: 0, bottom: gauges.top };
  }

  resize() {
    const [width, height] = [window.innerWidth, window.innerHeight];
    this.renderer.setSize(width, height, false);
    this.camera.aspect = width / height;
    const { left, right, top, bottom } = this.free();
    this.camera.setViewOffset(width, height, 0.5 * (width - left - right), 0.5 * (height - top - bottom), width, height);
    this.camera.updateProjectionMatrix();
  }

  // Moves back until the robot fits into the free part of the window.
  fit() {
    this.resize();
    const { left, right, top, bottom } = this.free();
    this.rig.fit(window.innerHeight / Math.max(1, Math.min(right - left, bottom - top)));
  }

  nextCamera() {
    this.rig.setMode(MODES[(MODES.indexOf(this.rig.mode) + 1) % MODES.length], this.live.robot.center);
  }

  mount() {
    const object = this.live.robot.carrier(0);
    return {
      object, position: new THREE.Vector3(), quaternion: new THREE.Quaternion(), ahead: new THREE.Vector3(1, 0, 0),
      above: new THREE.Vector3(0, 0, 1), back: 0.25, rise: 0.55,
    };
  }

  // If frames take too long, reduces shadows, then resolution, and leaves time to the rest of the page.
  spare(seconds) {
    this.slow = seconds > 0.12 ? this.slow + 1 : 0;
    if (this.slow < 3) return;
    this.slow = 0;
    this.saved += 1;
    if (this.saved === 1) this.sky.sun.castShadow = false;
    else if (this.saved < 5) {
      this.renderer.setPixelRatio(0.7 * this.renderer.getPixelRatio());
      this.resize();
    }
  }

  due(now) {
    return now - this.last >= (this.saved ? 1.5 * this.cost : 0);
  }

  // Without contact a robot may sink: the floor is hidden once it is below.
  leaveFloor(center) {
    if (!this.floor.shown || !this.floor.flat || !this.floor.level) return;
    const { floor } = this.record.surroundings;
    this.sunk = center.z < floor - 0.3 * this.size;
    this.floor.mesh.visible = !this.sunk;
    this.rig.floor = this.sunk ? -Infinity : floor;
  }

  draw(now) {
    const seconds = Math.min((now - this.last) / 1000, 0.25);
    this.last = now;
    this.spare(seconds);
    this.live.update(now);
    const { center } = this.live.robot;
    this.scene.updateMatrixWorld();
    this.rig.update(center, this.mount());
    this.floor.follow(this.rig.mode === "orbit" ? this.rig.target : center);
    this.leaveFloor(center);
    this.sky.follow(center);
    if (this.sea) {
      this.sea.drift.addScaledVector(this.current, seconds);
      this.sea.update(now / 1000, now / 1000, center);
    }
    const wet = this.sea && this.sea.isUnder(this.camera);
    const mood = this.record.surroundings.space ? "space" : wet ? "sea" : "land";
    this.sky.setMood(mood);
    document.body.dataset.mood = mood;
    this.renderer.render(this.scene, this.camera);
    // wait for software rendering
    if (this.saved) this.renderer.getContext().finish();
    this.cost = performance.now() - now;
  }
}

// Connection to the server, with automatic reconnection.
class Line {
  constructor(notice, hear) {
    this.notice = notice;
    this.hear = hear;
    this.connect();
  }

  connect() {
    const { protocol, host, search } = window.location;
    this.socket = new WebSocket(`${protocol === "https:" ? "wss" : "ws"}://${host}/socket${search}`);
    this.socket.addEventListener("message", (event) => this.hear(JSON.parse(event.data)));
    this.socket.addEventListener("open", () => this.notice.hide());
    this.socket.addEventListener("close", () => {
      this.notice.show("The connection is lost; trying again …", false, 0);
      setTimeout(() => this.connect(), 1500);
    });
  }

  send(message) {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }
}

export function start(record, bytes) {
  document.querySelector("#heading h1").textContent = record.title;
  document.querySelector("#heading p").textContent = record.about;
  const picture = new Picture(record, new Tables(bytes));
  const notice = new Notice();
  let desk = null;
  let gauges = null;
  let sticks = null;
  let state = null;
  let sent = {};

  const build = (welcome) => {
    welcome.short = Object.fromEntries(Object.entries(welcome.panel).map(([name, value]) => [name.replace("panel.", ""), value]));
    const names = welcome.sticks.map((name) => name.replace("panel.", ""));
    const actions = {
      Space: () => desk.pause(), Period: () => desk.step(), KeyT: () => desk.switchMode("station"), KeyG: () => desk.switchMode("arm_hold"),
      KeyC: () => picture.nextCamera(), KeyX: () => desk.record(), KeyV: () => line.send({ type: "snapshot" }),
      KeyB: () => line.send({ type: "restore" }), Home: () => desk.reset(),
    };
    sticks = new Sticks(AXES.filter((axis) => names.includes(axis)), names.filter((name) => name.startsWith("joint.")), actions);
    desk = new Desk(welcome, sticks, (message) => line.send(message));
    gauges = new Gauges(welcome);
    picture.fit();
    for (const parameter of welcome.parameters) noteCurrent(parameter.name, parameter.value);
  };

  const noteCurrent = (name, value) => {
    const axis = { "current.x": "x", "current.y": "y", "current.z": "z" }[name];
    if (axis) picture.current[axis] = value;
  };

  const hear = (message) => {
    if (message.type === "welcome" && !desk) build(message);
    else if (message.type === "state" && desk) {
      if (message.diverged && !state?.diverged) notice.show("The motion grew beyond all numbers; press Home to start again.", false, 0);
      if (!message.diverged && state?.diverged) notice.hide();
      state = message;
      picture.live.take(message, performance.now());
      gauges.show(message);
      desk.show(message);
    } else if (message.type === "error") notice.show(message.message);
    else if (message.request === "record" && !("rows" in message)) notice.show(`Recording to ${message.path}`, true);
    else if (message.path) notice.show(`Wrote ${message.path}`, true);
    else if (message.parameters) Object.entries(message.parameters).forEach(([name, value]) => noteCurrent(name, value));
    window.tiburonDrive.heard += 1;
  };
  window.tiburonDrive = { heard: 0, drawn: 0, picture, get state() { return state; }, get sticks() { return sticks; } };
  const line = new Line(notice, hear);

  setInterval(() => {
    if (!sticks) return;
    const held = sticks.read();
    desk.mirror(held);
    const moved = Object.keys(held).filter((name) => held[name] !== (sent[name] ?? 0) || held[name] !== 0);
    if (moved.length) line.send({ type: "command", values: Object.fromEntries(moved.map((name) => [name, held[name]])), hold: HOLD });
    sent = held;
  }, SEND_EVERY);

  picture.renderer.setAnimationLoop((now) => {
    if (!picture.due(now)) return;
    const sunk = picture.sunk;
    picture.draw(now);
    if (picture.sunk && !sunk) notice.show("Below the floor of the scene, which holds nothing up; press Home to start again.", true);
    window.tiburonDrive.drawn += 1;
  });
}
