// One robot: the solids of all its cases, moved to their poses at a time.

import * as THREE from "three";
import { bracket } from "./decode.js";
import { geometryOf, materialOf, thrusterSolid } from "./solids.js";

const POSE_SIZE = 7; // quaternion (w, x, y, z) and position

export class Robot {
  constructor(scene, record, tables) {
    this.record = record;
    this.poses = tables.read(record.poses);
    [this.frames, this.cases, this.bodyCount] = record.poses.shape;
    this.thrust = record.thrust ? tables.read(record.thrust) : null;
    this.group = new THREE.Group();
    scene.add(this.group);
    const geometries = record.bodies.map((body) => body.parts.map((part) => geometryOf(part, tables)));
    this.shown = Array.from({ length: this.cases }, (_, number) => this.buildCase(number, geometries));
    this.center = new THREE.Vector3();
  }

  buildCase(number, geometries) {
    const whole = new THREE.Group();
    this.group.add(whole);
    const ghost = number > 0;
    const bodies = this.record.bodies.map((body, index) => {
      const group = new THREE.Group();
      body.parts.forEach((part, k) => {
        const mesh = new THREE.Mesh(geometries[index][k], materialOf(part.color, ghost, (index + 3 * k) % 7));
        const [w, x, y, z] = part.quaternion;
        mesh.position.set(...part.position);
        mesh.quaternion.set(x, y, z, w);
        mesh.castShadow = !ghost && part.kind !== "plane";
        mesh.receiveShadow = !ghost;
        group.add(mesh);
      });
      whole.add(group);
      return group;
    });
    const propellers = ghost ? [] : this.record.thrusters.map((thruster) => {
      const solid = thrusterSolid(thruster.radius);
      solid.position.set(...thruster.position);
      solid.quaternion.setFromUnitVectors(new THREE.Vector3(0, 0, 1), new THREE.Vector3(...thruster.direction));
      solid.traverse((node) => { node.castShadow = true; });
      (bodies[thruster.body] ?? whole).add(solid);
      return solid.userData.propeller;
    });
    const lines = (this.record.lines ?? []).map((line) => {
      const rod = new THREE.CylinderGeometry(line.radius, line.radius, 1, 8);
      const mesh = new THREE.Mesh(rod, materialOf(line.color, ghost, 5));
      mesh.castShadow = !ghost;
      whole.add(mesh);
      return mesh;
    });
    return { whole, bodies, propellers, lines };
  }

  // Moves all bodies to their poses at a time; ended cases are hidden.
  update(times, time, seconds) {
    const { first, second, share } = bracket(times, time);
    const one = new THREE.Quaternion();
    const two = new THREE.Quaternion();
    this.shown.forEach(({ whole, bodies, propellers, lines }, number) => {
      let present = true;
      bodies.forEach((group, index) => {
        const a = ((first * this.cases + number) * this.bodyCount + index) * POSE_SIZE;
        const b = ((second * this.cases + number) * this.bodyCount + index) * POSE_SIZE;
        const p = this.poses;
        // after the last valid frame, hold it
        const s = share > 0 && Number.isNaN(p[b]) ? 0 : share;
        if (Number.isNaN(p[a])) present = false;
        one.set(p[a + 1], p[a + 2], p[a + 3], p[a]);
        if (s > 0) one.slerp(two.set(p[b + 1], p[b + 2], p[b + 3], p[b]), s);
        group.quaternion.copy(one);
        group.position.set(...[4, 5, 6].map((k) => (s > 0 ? (1 - s) * p[a + k] + s * p[b + k] : p[a + k])));
      });
      whole.visible = present;
      propellers.forEach((propeller, k) => { propeller.rotation.z = this.turn(k, first, seconds); });
      lines.forEach((mesh, k) => {
        const { bodies: ends, points } = this.record.lines[k];
        const [start, end] = ends.map((index, side) => {
          const point = new THREE.Vector3(...points[side]);
          return index < 0 ? point : point.applyQuaternion(bodies[index].quaternion).add(bodies[index].position);
        });
        const along = end.clone().sub(start);
        mesh.position.copy(start).addScaledVector(along, 0.5);
        mesh.scale.set(1, Math.max(along.length(), 1e-9), 1);
        mesh.quaternion.setFromUnitVectors(new THREE.Vector3(0, 1, 0), along.normalize());
      });
    });
    const center = this.weightedCenter("mass", "center");
    if (center) this.center.copy(center);
    else if (this.shown[0].whole.visible && this.bodyCount) this.center.copy(this.shown[0].bodies[0].position);
  }

  turn(k, frame, seconds) {
    if (!this.thrust || !this.record.largestThrust) return 0;
    const value = this.thrust[frame * this.cases * this.record.thrusters.length + k];
    return Math.sign(value) * Math.sqrt(Math.abs(value) / this.record.largestThrust) * 25 * seconds;
  }

  // Weighted mean of a point of the first case's bodies; null if all weights are zero.
  weightedCenter(weight, point) {
    if (!this.shown[0].whole.visible) return null;
    const sum = new THREE.Vector3();
    let total = 0;
    this.record.bodies.forEach((body, index) => {
      if (body[weight] <= 0) return;
      const group = this.shown[0].bodies[index];
      sum.addScaledVector(new THREE.Vector3(...body[point]).applyQuaternion(group.quaternion).add(group.position), body[weight]);
      total += body[weight];
    });
    return total > 0 ? sum.divideScalar(total) : null;
  }

  // Object that carries a frame or thruster: a body of the first case, or the world (-1).
  carrier(index) {
    return index < 0 ? this.shown[0].whole : this.shown[0].bodies[index];
  }

  // Path of the center of mass or of a body over all frames, for trails: point count and coordinates.
  path(number, body) {
    const points = [];
    for (let frame = 0; frame < this.frames; frame++) {
      const a = ((frame * this.cases + number) * this.bodyCount + body) * POSE_SIZE;
      points.push(this.poses[a + 4], this.poses[a + 5], this.poses[a + 6]);
    }
    return points;
  }
}
