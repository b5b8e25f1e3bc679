// Overlays: frames, labels, centers, trails, force arrows.

import * as THREE from "three";
import { Arrow } from "./arrows.js";
import { Contacts } from "./contacts.js";
import { bracket } from "./decode.js";

function axes(length) {
  const group = new THREE.Group();
  const rod = new THREE.CylinderGeometry(0.022 * length, 0.022 * length, length, 10).translate(0, length / 2, 0);
  const turns = [[0, 0, -Math.PI / 2], [0, 0, 0], [Math.PI / 2, 0, 0]];
  [0xe5484d, 0x30a46c, 0x3e7bfa].forEach((color, axis) => {
    const mesh = new THREE.Mesh(rod, new THREE.MeshBasicMaterial({ color, depthTest: false, transparent: true }));
    mesh.rotation.set(...turns[axis]);
    mesh.renderOrder = 20;
    group.add(mesh);
  });
  return group;
}

function label(text, size) {
  const pen = document.createElement("canvas").getContext("2d");
  const font = "500 44px system-ui, sans-serif";
  pen.font = font;
  const width = Math.ceil(pen.measureText(text).width) + 36;
  pen.canvas.width = width;
  pen.canvas.height = 68;
  pen.font = font;
  pen.fillStyle = "rgba(16, 24, 32, 0.72)";
  pen.beginPath();
  pen.roundRect(0, 0, width, 68, 20);
  pen.fill();
  pen.fillStyle = "#ffffff";
  pen.textBaseline = "middle";
  pen.fillText(text, 18, 36);
  const map = new THREE.CanvasTexture(pen.canvas);
  map.colorSpace = THREE.SRGBColorSpace;
  const sprite = new THREE.Sprite(new THREE.SpriteMaterial({ map, depthTest: false, transparent: true, fog: false, toneMapped: false, sizeAttenuation: false }));
  sprite.scale.set((width / 68) * size, size, 1);
  sprite.center.set(0, -0.35);
  sprite.renderOrder = 30;
  return sprite;
}

// The symbol of a center of mass: a sphere in light and dark octants.
function centerMark(radius, color) {
  const canvas = document.createElement("canvas");
  canvas.width = 128;
  canvas.height = 64;
  const pen = canvas.getContext("2d");
  for (let i = 0; i < 4; i++) {
    for (let j = 0; j < 2; j++) {
      pen.fillStyle = (i + j) % 2 ? color : "#ffffff";
      pen.fillRect(32 * i, 32 * j, 32, 32);
    }
  }
  const map = new THREE.CanvasTexture(canvas);
  map.colorSpace = THREE.SRGBColorSpace;
  const material = new THREE.MeshBasicMaterial({ map, depthTest: false, transparent: true, fog: false });
  const ball = new THREE.Mesh(new THREE.SphereGeometry(radius, 24, 16), material);
  ball.renderOrder = 25;
  return ball;
}

function trail(points, color, opacity) {
  const geometry = new THREE.BufferGeometry();
  geometry.setAttribute("position", new THREE.Float32BufferAttribute(points, 3));
  const line = new THREE.Line(geometry, new THREE.LineBasicMaterial({ color, transparent: true, opacity, fog: false }));
  line.frustumCulled = false;
  return line;
}

export class Overlays {
  constructor(scene, robot, tables) {
    this.robot = robot;
    const { record } = robot;
    const { size } = record;
    this.forces = { group: new THREE.Group(), arrows: [] };
    this.trails = new THREE.Group();
    this.centers = new THREE.Group();
    this.touching = new THREE.Group();
    scene.add(this.forces.group, this.touching, this.trails, this.centers);
    this.contacts = record.contacts ? new Contacts(this.touching, record, tables) : null;
    this.buildFrames(record, size);
    this.mass = centerMark(0.028 * size, "#15191d");
    this.buoyancy = centerMark(0.028 * size, "#1479d6");
    this.centers.add(this.mass, this.buoyancy);
    const tip = robot.bodyCount - 1;
    for (let number = 0; number < robot.cases; number++) {
      if (robot.bodyCount === 0) break;
      this.trails.add(trail(robot.path(number, 0), 0xf2b134, number ? 0.35 : 1));
      if (tip > 0 && number === 0) this.trails.add(trail(robot.path(number, tip), 0xe5484d, 1));
    }
    for (const force of record.forces) {
      const data = tables.read(force.data);
      this.forces.arrows.push({ ...force, data, force: new Arrow(this.forces.group, "force", 0.6 * size), moment: new Arrow(this.forces.group, "moment", 0.5 * size) });
    }
    this.jets = robot.thrust ? record.thrusters.map(() => new Arrow(this.forces.group, "thrust", 0.45 * size)) : [];
  }

  buildFrames(record, size) {
    this.frames = [];
    this.labels = [];
    const mark = (name, carrier, position, [w, x, y, z]) => {
      const place = new THREE.Group();
      place.position.set(...position);
      place.quaternion.set(x, y, z, w);
      carrier.add(place);
      const cross = axes(0.11 * size);
      const text = label(name, 0.026);
      place.add(cross, text);
      this.frames.push(cross);
      this.labels.push(text);
    };
    record.bodies.forEach((body, index) => mark(body.name, this.robot.carrier(index), [0, 0, 0], [1, 0, 0, 0]));
    record.frames.forEach((frame) => mark(frame.name, this.robot.carrier(frame.body), frame.position, frame.quaternion));
  }

  // Switches one overlay on or off.
  show(kind, on) {
    if (kind === "frames") this.frames.forEach((node) => { node.visible = on; });
    if (kind === "labels") this.labels.forEach((node) => { node.visible = on; });
    if (kind === "trails") this.trails.visible = on;
    if (kind === "centers") this.centers.visible = on;
    if (kind === "contacts") this.touching.visible = on;
    if (kind === "forces") this.forces.group.visible = on;
  }

  update(times, time) {
    const between = bracket(times, time);
    const present = this.robot.shown[0].whole.visible;
    const mass = this.robot.weightedCenter("mass", "center");
    const buoyancy = this.robot.weightedCenter("volume", "buoyancy");
    this.mass.visible = mass !== null;
    this.buoyancy.visible = buoyancy !== null;
    if (mass) this.mass.position.copy(mass);
    if (buoyancy) this.buoyancy.position.copy(buoyancy);
    for (const line of this.trails.children) line.geometry.setDrawRange(0, between.first + 1);
    this.updateForces(between, present);
    this.updateJets(between, present);
    this.contacts?.update(between, present);
  }

  updateForces({ first, second, share }, present) {
    const { cases } = this.robot;
    for (const arrow of this.forces.arrows) {
      if (!present) {
        arrow.force.hide();
        arrow.moment.hide();
        continue;
      }
      const number = (k) => (1 - share) * arrow.data[6 * first * cases + k] + share * arrow.data[6 * second * cases + k];
      const carrier = this.robot.carrier(arrow.body);
      const [w, x, y, z] = arrow.quaternion;
      const turn = carrier.quaternion.clone().multiply(new THREE.Quaternion(x, y, z, w));
      const point = new THREE.Vector3(...arrow.position).applyQuaternion(carrier.quaternion).add(carrier.position);
      const vector = (from) => new THREE.Vector3(number(from), number(from + 1), number(from + 2)).applyQuaternion(turn);
      arrow.moment.show(point, vector(0), arrow.largestMoment);
      arrow.force.show(point, vector(3), arrow.largest);
    }
  }

  updateJets({ first, second, share }, present) {
    const count = this.jets.length;
    this.jets.forEach((jet, k) => {
      if (!present) {
        jet.hide();
        return;
      }
      const row = (frame) => this.robot.thrust[frame * this.robot.cases * count + k];
      const value = (1 - share) * row(first) + share * row(second);
      const { body, position, direction } = this.robot.record.thrusters[k];
      const carrier = this.robot.carrier(body);
      const point = new THREE.Vector3(...position).applyQuaternion(carrier.quaternion).add(carrier.position);
      const vector = new THREE.Vector3(...direction).applyQuaternion(carrier.quaternion).multiplyScalar(value);
      jet.show(point, vector, this.robot.record.largestThrust);
    });
  }
}
