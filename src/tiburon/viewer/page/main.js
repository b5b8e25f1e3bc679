// Builds and runs the page: scene, robots, surroundings, camera, player.

import * as THREE from "three";
import { CameraRig } from "./camera.js";
import { Controls } from "./controls.js";
import { Floor } from "./floor.js";
import { Overlays } from "./overlays.js";
import { PlotStrip } from "./plots.js";
import { Robot } from "./robot.js";
import { Sea } from "./sea.js";
import { Sky } from "./sky.js";
import { Tables, bracket } from "./decode.js";

// Playback time, from 0 to the duration, in a loop.
class Player {
  constructor(times, start, speed) {
    this.duration = times[times.length - 1] - times[0];
    this.start = start;
    this.speed = speed;
    this.time = 0;
    this.moves = this.duration > 0;
    this.playing = this.moves;
    this.center = new THREE.Vector3();
  }

  toggle() {
    if (!this.playing && this.time >= this.duration) this.time = 0;
    this.playing = this.moves && !this.playing;
  }

  seek(time) {
    this.playing = false;
    this.time = Math.min(this.duration, Math.max(0, time));
  }

  advance(seconds) {
    if (!this.playing) return;
    this.time += this.speed * seconds;
    if (this.time > this.duration) this.time %= this.duration;
  }
}

// Mounts of the on-board camera: named frames and bodies; vehicles look along x, tools along z.
function mountsOf(robot) {
  const { record } = robot;
  const x = new THREE.Vector3(1, 0, 0);
  const z = new THREE.Vector3(0, 0, 1);
  const named = record.frames.map((frame) => ({ ...frame, tool: true }));
  const bodies = record.bodies.map((body, index) => ({ name: body.name, body: index, position: [0, 0, 0], quaternion: [1, 0, 0, 0], tool: index > 0 }));
  const rootMoves = robot.frames > 1 && [0, 1, 2].some((k) => {
    const path = robot.path(0, 0);
    return Math.abs(path[path.length - 3 + k] - path[k]) > 1e-4 * record.size;
  });
  return [...bodies, ...named].map(({ name, body, position, quaternion: [w, i, j, k], tool }, index) => ({
    name,
    object: robot.carrier(body),
    position: new THREE.Vector3(...position),
    quaternion: new THREE.Quaternion(i, j, k, w),
    ahead: tool ? z : x,
    above: tool ? x : z,
    back: tool ? 0.06 : 0.25,
    rise: tool ? 0.1 : 0.55,
    preferred: rootMoves ? index === 0 : index === bodies.length + named.length - 1,
  }));
}

// Reduces quality where frames take too long, as without a GPU.
class Quality {
  constructor(renderer, scene, sun, resize) {
    const { shadow } = sun;
    this.slow = 0;
    this.steps = [
      () => {
        shadow.mapSize.set(1024, 1024);
        shadow.map?.dispose();
        shadow.map = null;
        scene.traverse((node) => { if (node.material?.clearcoat) node.material.clearcoat = 0; });
      },
      () => renderer.setPixelRatio(0.7 * renderer.getPixelRatio()),
      () => renderer.setPixelRatio(0.7 * renderer.getPixelRatio()),
      () => { sun.castShadow = false; },
    ];
    this.resize = resize;
  }

  judge(seconds) {
    this.slow = seconds > 0.1 ? this.slow + 1 : 0;
    if (this.slow < 5 || this.steps.length === 0) return;
    this.slow = 0;
    this.steps.shift()();
    this.resize();
  }
}

function makeRenderer(canvas) {
  const renderer = new THREE.WebGLRenderer({ canvas, antialias: true });
  renderer.setPixelRatio(Math.min(window.devicePixelRatio || 1, 2));
  renderer.shadowMap.enabled = true;
  renderer.shadowMap.type = THREE.PCFSoftShadowMap;
  renderer.toneMapping = THREE.NeutralToneMapping;
  renderer.toneMappingExposure = 1.05;
  return renderer;
}

export function start(record, bytes) {
  const tables = new Tables(bytes);
  const times = tables.read(record.times);
  const canvas = document.getElementById("scene");
  const renderer = makeRenderer(canvas);
  const scene = new THREE.Scene();
  const box = ({ low, high }) => new THREE.Sphere(
    new THREE.Vector3(...low).lerp(new THREE.Vector3(...high), 0.5),
    0.5 * new THREE.Vector3(...low).distanceTo(new THREE.Vector3(...high)),
  );
  const first = box(record.first);
  const whole = box(record.bounds);
  const size = Math.max(first.radius, 0.02);
  // follow robots that travel far; otherwise the whole range of motion is in view
  const far = whole.radius > 2.5 * size;
  const mode = record.camera === "auto" ? (far ? "follow" : "orbit") : record.camera;
  const seen = far ? first : whole;
  const extent = 24 * size;
  const camera = new THREE.PerspectiveCamera(38, 1, 0.02 * size, 400 * size);
  const rig = new CameraRig(camera, canvas, seen.center, 2.9 * Math.max(seen.radius, size), size);
  const sky = new Sky(scene, renderer, size);
  const floor = new Floor(scene, record.surroundings, size, extent, tables);
  const { water } = record.surroundings;
  const sea = water ? new Sea(scene, water, size, extent, tables) : null;
  if (floor.shown && floor.flat && floor.level) rig.floor = record.surroundings.floor;
  const robots = record.robots.map((robot) => new Robot(scene, robot, tables));
  const overlays = robots.map((robot) => new Overlays(scene, robot, tables));
  const player = new Player(times, record.start, record.speed);
  const mounts = mountsOf(robots[0]);
  rig.mode = mode;
  const switchOverlay = (kind, on) => {
    overlays.forEach((overlay) => overlay.show(kind, on));
    if (kind === "water" && sea) sea.group.visible = on;
  };
  const controls = new Controls(record, player, rig, mounts, switchOverlay);
  const strip = new PlotStrip(record, times, tables, (time) => player.seek(time));
  for (const kind of ["click", "change"]) document.getElementById("strip").addEventListener(kind, () => { controls.version += 1; });

  const draw = (seconds) => {
    robots.forEach((robot) => robot.update(times, player.time, seconds));
    overlays.forEach((overlay) => overlay.update(times, player.time));
    player.center.copy(robots[0].center);
    scene.updateMatrixWorld();
    rig.update(player.center, mounts[controls.mountChosen]);
    floor.follow(rig.mode === "orbit" ? rig.target : player.center);
    sky.follow(player.center);
    if (sea) sea.update(player.time, seconds, player.center);
    const wet = sea && sea.group.visible && sea.isUnder(camera);
    const mood = record.surroundings.space ? "space" : wet ? "sea" : "land";
    sky.setMood(mood);
    document.body.dataset.mood = mood;
    renderer.render(scene, camera);
    strip.update(player.time, bracket(times, player.time));
    controls.update();
  };

  const resize = () => {
    renderer.setSize(window.innerWidth, window.innerHeight, false);
    camera.aspect = window.innerWidth / window.innerHeight;
    // the panel covers the lower part: shift the view so that the robot is in the free part
    const covered = document.getElementById("panel").offsetHeight;
    camera.setViewOffset(window.innerWidth, window.innerHeight, 0, 0.5 * covered, window.innerWidth, window.innerHeight);
    camera.updateProjectionMatrix();
  };
  window.addEventListener("resize", resize);
  new ResizeObserver(resize).observe(document.getElementById("panel"));
  resize();
  rig.fit(window.innerHeight / Math.min(window.innerWidth, window.innerHeight - document.getElementById("panel").offsetHeight));

  const quality = new Quality(renderer, scene, sky.sun, resize);
  let last = null;
  let shown = "";
  renderer.setAnimationLoop((now) => {
    // a hidden tab resumes where it stopped
    const seconds = last === null ? 0 : Math.min((now - last) / 1000, 0.25);
    last = now;
    player.advance(seconds);
    // redraw only on changes: an idle page consumes no power
    const wanted = [player.time, player.playing, rig.version, controls.version, window.innerWidth, window.innerHeight,
      document.getElementById("panel").offsetHeight].join(" ");
    if (wanted === shown) return;
    shown = wanted;
    draw(now / 1000);
    quality.judge(seconds);
    window.tiburonReplay.drawn += 1;
  });
  // for pages that embed this one, and for tests
  window.tiburonReplay = { player, record, robots, rig, controls, renderer, scene, camera, drawn: 0 };
}
