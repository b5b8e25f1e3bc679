// Cameras: around a fixed point, around the moving robot, or on board.

import * as THREE from "three";

export const MODES = ["orbit", "follow", "on-board"];

export class CameraRig {
  constructor(camera, canvas, center, distance, size) {
    this.camera = camera;
    this.canvas = canvas;
    this.mode = "orbit";
    this.home = { center: center.clone(), distance };
    this.target = center.clone();
    this.offset = new THREE.Vector3(); // from the robot to the target, in follow mode
    this.size = size;
    this.distance = distance;
    this.azimuth = -0.9;
    this.elevation = 0.34;
    this.floor = -Infinity;
    this.version = 0; // incremented by user input
    this.pointers = new Map();
    canvas.addEventListener("pointerdown", (event) => this.press(event));
    canvas.addEventListener("pointermove", (event) => this.drag(event));
    for (const kind of ["pointerup", "pointercancel"]) {
      canvas.addEventListener(kind, (event) => this.pointers.delete(event.pointerId));
    }
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(Math.exp(0.0011 * event.deltaY));
    }, { passive: false });
    canvas.addEventListener("contextmenu", (event) => event.preventDefault());
    canvas.addEventListener("dblclick", () => this.reset());
  }

  reset() {
    this.version += 1;
    this.target.copy(this.home.center);
    this.offset.set(0, 0, 0);
    this.distance = this.home.distance;
    this.azimuth = -0.9;
    this.elevation = 0.34;
  }

  // Moves back until the robot fits into the free part of the window.
  fit(factor) {
    this.home.distance *= Math.min(factor, 3);
    this.reset();
  }

  press(event) {
    this.canvas.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, { x: event.clientX, y: event.clientY, shifts: event.button !== 0 || event.shiftKey });
  }

  drag(event) {
    const last = this.pointers.get(event.pointerId);
    if (!last) return;
    this.version += 1;
    const dx = event.clientX - last.x;
    const dy = event.clientY - last.y;
    if (this.pointers.size === 2) {
      // two fingers: pinch to zoom, drag to pan
      const other = [...this.pointers.entries()].find(([id]) => id !== event.pointerId)[1];
      const before = Math.hypot(last.x - other.x, last.y - other.y);
      const after = Math.hypot(event.clientX - other.x, event.clientY - other.y);
      if (before > 0 && after > 0) this.zoom(before / after);
      this.shift(dx / 2, dy / 2);
    } else if (last.shifts) {
      this.shift(dx, dy);
    } else {
      this.azimuth -= 0.006 * dx;
      this.elevation = Math.min(1.55, Math.max(-1.5, this.elevation + 0.006 * dy));
    }
    last.x = event.clientX;
    last.y = event.clientY;
  }

  zoom(factor) {
    this.version += 1;
    this.distance = Math.min(60 * this.size, Math.max(0.1 * this.size, this.distance * factor));
  }

  shift(dx, dy) {
    const scale = (1.2 * this.distance) / this.canvas.clientHeight;
    const right = new THREE.Vector3().setFromMatrixColumn(this.camera.matrixWorld, 0);
    const up = new THREE.Vector3().setFromMatrixColumn(this.camera.matrixWorld, 1);
    const by = right.multiplyScalar(-dx * scale).add(up.multiplyScalar(dy * scale));
    (this.mode === "follow" ? this.offset : this.target).add(by);
  }

  setMode(mode, robotCenter) {
    this.version += 1;
    if (mode === "follow" && this.mode !== "follow") this.offset.set(0, 0, 0);
    if (mode === "orbit" && this.mode === "follow") this.target.copy(robotCenter).add(this.offset);
    this.mode = mode;
  }

  // Moves the camera; `mount` is the object that carries the on-board camera, and its viewing axis.
  update(robotCenter, mount) {
    if (this.mode === "on-board" && mount) {
      this.ride(mount);
      return;
    }
    if (this.mode === "follow") this.target.copy(robotCenter).add(this.offset);
    const flat = Math.cos(this.elevation);
    this.camera.up.set(0, 0, 1);
    this.camera.position.set(
      this.target.x + this.distance * flat * Math.cos(this.azimuth),
      this.target.y + this.distance * flat * Math.sin(this.azimuth),
      Math.max(this.target.z + this.distance * Math.sin(this.elevation), this.floor + 0.03 * this.size),
    );
    this.camera.lookAt(this.target);
  }

  ride({ object, position, quaternion, ahead, above, back, rise }) {
    const turn = object.getWorldQuaternion(new THREE.Quaternion()).multiply(quaternion);
    const place = object.localToWorld(position.clone());
    const forward = ahead.clone().applyQuaternion(turn);
    const up = above.clone().applyQuaternion(turn);
    place.addScaledVector(forward, -back * this.size).addScaledVector(up, rise * this.size);
    this.camera.position.copy(place);
    this.camera.up.copy(up);
    this.camera.lookAt(place.addScaledVector(forward, this.size).addScaledVector(up, -0.3 * rise * this.size));
  }
}
