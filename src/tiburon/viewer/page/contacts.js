// Contacts: a dot at each point that touches, and an arrow for the force on the first body.

import * as THREE from "three";
import { Arrow } from "./arrows.js";

const COLORS = [0x18a558, 0xe5373d, 0x18a558]; // by mode: separated, slipping, sticking
const ENTRIES = 7; // point, force, mode
const LONGEST = 1.8; // arrows of impacts, relative to the full length

export class Contacts {
  constructor(parent, record, tables) {
    this.data = tables.read(record.contacts);
    this.count = record.contacts.shape[1];
    this.usual = record.usualContact;
    const ball = new THREE.SphereGeometry(0.012 * record.size, 14, 10);
    this.points = Array.from({ length: this.count }, () => {
      const arrow = new Arrow(parent, "contact", 0.5 * record.size);
      // forces act inside of shapes, which must not hide them
      Object.assign(arrow.mesh.material, { depthTest: false, transparent: true, opacity: 0.92 });
      arrow.mesh.renderOrder = 15;
      const dot = new THREE.Mesh(ball, arrow.mesh.material);
      dot.renderOrder = 15;
      parent.add(dot);
      return { arrow, dot };
    });
  }

  // Draws the contacts of two frames and the fraction between them.
  update({ first, second, share }, present) {
    this.points.forEach(({ arrow, dot }, k) => {
      const one = ENTRIES * (first * this.count + k);
      const two = ENTRIES * (second * this.count + k);
      const mode = this.data[one + ENTRIES - 1];
      dot.visible = present && mode > 0;
      if (!dot.visible) {
        arrow.hide();
        return;
      }
      // a force that ends between the frames keeps its last value
      const mixed = this.data[two + ENTRIES - 1] > 0 ? share : 0;
      const vector = (from) => new THREE.Vector3(...[0, 1, 2].map(
        (i) => (1 - mixed) * this.data[one + from + i] + mixed * this.data[two + from + i],
      ));
      const point = vector(0);
      const force = vector(3);
      arrow.paint(COLORS[Math.round(mode)]);
      dot.position.copy(point);
      force.clampLength(0, LONGEST * this.usual);
      arrow.show(point, force, this.usual);
    });
  }
}
