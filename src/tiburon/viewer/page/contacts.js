// Contacts: a dot at each point that touches, an arrow for the force on the first body, and the cone
// of friction that the force stays in.

import * as THREE from "three";
import { Arrow } from "./arrows.js";

const COLORS = [0x18a558, 0xe5373d, 0x18a558]; // by mode: separated, slipping, sticking
const ENTRIES = 11; // point, force, mode, normal, friction
const MODE = 6;
const HEIGHT = 0.22; // of cones, relative to the size of the robot
const DOWN = new THREE.Vector3(0, -1, 0);
const LONGEST = 1.8; // arrows of impacts, relative to the full length

export class Contacts {
  constructor(parent, record, tables) {
    this.data = tables.read(record.contacts);
    this.count = record.contacts.shape[1];
    this.usual = record.usualContact;
    this.size = record.size;
    const ball = new THREE.SphereGeometry(0.012 * record.size, 14, 10);
    this.points = Array.from({ length: this.count }, () => {
      const arrow = new Arrow(parent, "contact", 0.5 * record.size);
      // forces act inside of shapes, which must not hide them
      Object.assign(arrow.mesh.material, { depthTest: false, transparent: true, opacity: 0.92 });
      arrow.mesh.renderOrder = 15;
      const dot = new THREE.Mesh(ball, arrow.mesh.material);
      dot.renderOrder = 15;
      parent.add(dot);
      // apex at the origin, open toward the first body
      const shape = new THREE.ConeGeometry(1, 1, 28, 1, true).translate(0, -0.5, 0);
      const cone = new THREE.Mesh(shape, new THREE.MeshBasicMaterial({
        color: 0x3a86ff, transparent: true, opacity: 0.2, side: THREE.DoubleSide, depthWrite: false,
      }));
      cone.renderOrder = 14;
      cone.visible = false;
      parent.add(cone);
      return { arrow, dot, cone };
    });
  }

  // Draws the contacts of two frames and the fraction between them.
  update({ first, second, share }, present) {
    this.points.forEach(({ arrow, dot, cone }, k) => {
      const one = ENTRIES * (first * this.count + k);
      const two = ENTRIES * (second * this.count + k);
      const mode = this.data[one + MODE];
      dot.visible = present && mode > 0;
      if (!dot.visible) {
        arrow.hide();
        cone.visible = false;
        return;
      }
      // a force that ends between the frames keeps its last value
      const mixed = this.data[two + MODE] > 0 ? share : 0;
      const vector = (from) => new THREE.Vector3(...[0, 1, 2].map(
        (i) => (1 - mixed) * this.data[one + from + i] + mixed * this.data[two + from + i],
      ));
      const point = vector(0);
      const force = vector(3);
      arrow.paint(COLORS[Math.round(mode)]);
      dot.position.copy(point);
      force.clampLength(0, LONGEST * this.usual);
      arrow.show(point, force, this.usual);
      const friction = this.data[one + ENTRIES - 1];
      cone.visible = friction > 0;
      if (cone.visible) {
        const height = HEIGHT * this.size;
        cone.position.copy(point);
        // the normal points away from the first body; the open end of the cone toward it
        cone.quaternion.setFromUnitVectors(DOWN, vector(7).normalize().negate());
        cone.scale.set(friction * height, height, friction * height);
      }
    });
  }
}
