// Arrows for forces, moments and currents.

import * as THREE from "three";

const UP = new THREE.Vector3(0, 0, 1);

// A shaft and a head of one unit length along z; moments have two heads.
function arrowGeometry(twoHeads) {
  const outline = [[0, 0], [0.028, 0], [0.028, 0.74], [0.075, 0.74], [0, 1]];
  if (twoHeads) outline.splice(2, 3, [0.028, 0.56], [0.075, 0.56], [0.022, 0.76], [0.075, 0.76], [0, 1]);
  return new THREE.LatheGeometry(outline.map(([x, y]) => new THREE.Vector2(x, y)), 20).rotateX(Math.PI / 2);
}

const ONE = arrowGeometry(false);
const TWO = arrowGeometry(true);

export const COLORS = {
  force: 0xff7a1a, moment: 0x9b5de5, thrust: 0xffc233, current: 0xbdf4ff, contact: 0x18a558,
};

export class Arrow {
  constructor(parent, kind, size) {
    this.size = size;
    const material = new THREE.MeshStandardMaterial({
      color: COLORS[kind], roughness: 0.4, emissive: COLORS[kind], emissiveIntensity: 0.35,
    });
    this.mesh = new THREE.Mesh(kind === "moment" ? TWO : ONE, material);
    this.mesh.castShadow = true;
    parent.add(this.mesh);
  }

  // Draws a vector at a point; an arrow for a vector of size `whole` has the length `length`.
  show(point, vector, whole) {
    const size = vector.length();
    const long = whole > 0 ? (size / whole) * this.size : 0;
    this.mesh.visible = long > 0.02 * this.size && Number.isFinite(long);
    if (!this.mesh.visible) return;
    this.mesh.position.copy(point);
    this.mesh.quaternion.setFromUnitVectors(UP, vector.clone().divideScalar(size));
    // limit the thickness of long arrows
    const thick = Math.min(0.8 * long, 0.4 * this.size);
    this.mesh.scale.set(thick, thick, long);
  }

  hide() {
    this.mesh.visible = false;
  }

  paint(color) {
    this.mesh.material.color.setHex(color);
    this.mesh.material.emissive.setHex(color);
  }
}

// Many thin arrows at fixed points: the flow of the water.
export class ArrowField {
  constructor(scene, count, size) {
    this.size = size;
    const material = new THREE.MeshBasicMaterial({
      color: COLORS.current, transparent: true, opacity: 0.42, depthWrite: false,
    });
    this.mesh = new THREE.InstancedMesh(ONE, material, count);
    this.mesh.frustumCulled = false;
    this.place = new THREE.Object3D();
    scene.add(this.mesh);
  }

  set(i, point, vector, whole) {
    const speed = vector.length();
    const long = Math.max((speed / whole) * this.size, 1e-6);
    this.place.position.copy(point);
    if (speed > 0) this.place.quaternion.setFromUnitVectors(UP, vector.clone().divideScalar(speed));
    this.place.scale.set(0.5 * this.size, 0.5 * this.size, long);
    this.place.updateMatrix();
    this.mesh.setMatrixAt(i, this.place.matrix);
  }

  changed() {
    this.mesh.instanceMatrix.needsUpdate = true;
  }
}
