// Geometry and material of the solids robots are made of.

import * as THREE from "three";

const CIRCLE_SEGMENTS = 40;

// A box with rounded edges: its vertices lie on spheres around the corners of a smaller box.
function roundedBox([x, y, z]) {
  const radius = 0.06 * Math.min(x, y, z);
  const steps = 3;
  const segments = 2 * steps + 1;
  const geometry = new THREE.BoxGeometry(1, 1, 1, segments, segments, segments);
  const places = geometry.attributes.position;
  const normals = geometry.attributes.normal;
  const half = [x / 2 - radius, y / 2 - radius, z / 2 - radius];
  const direction = new THREE.Vector3();
  for (let i = 0; i < places.count; i++) {
    const center = [];
    for (let axis = 0; axis < 3; axis++) {
      const step = Math.round((places.getComponent(i, axis) + 0.5) * segments);
      const low = step <= steps;
      const turn = low ? (step - steps) / steps : (step - steps - 1) / steps;
      direction.setComponent(axis, Math.tan((turn * Math.PI) / 4));
      center.push(low ? -half[axis] : half[axis]);
    }
    direction.normalize();
    normals.setXYZ(i, direction.x, direction.y, direction.z);
    places.setXYZ(i, center[0] + radius * direction.x, center[1] + radius * direction.y,
      center[2] + radius * direction.z);
  }
  return geometry;
}

// A cylinder along z whose rims are rounded.
function roundedCylinder([radius, length]) {
  const rim = Math.min(0.12 * radius, 0.12 * length);
  const half = length / 2;
  const outline = [new THREE.Vector2(0, -half), new THREE.Vector2(0.98 * (radius - rim), -half)];
  for (const [height, from] of [[-half + rim, -Math.PI / 2], [half - rim, 0]]) {
    for (let k = 0; k <= 5; k++) {
      const angle = from + (k / 5) * (Math.PI / 2);
      outline.push(new THREE.Vector2(radius - rim + rim * Math.cos(angle), height + rim * Math.sin(angle)));
    }
  }
  outline.push(new THREE.Vector2(0.98 * (radius - rim), half), new THREE.Vector2(0, half));
  return new THREE.LatheGeometry(outline, CIRCLE_SEGMENTS).rotateX(Math.PI / 2);
}

function meshGeometry(part, tables) {
  const corners = Uint32Array.from(tables.read(part.triangles));
  const geometry = new THREE.BufferGeometry();
  geometry.setAttribute("position", new THREE.BufferAttribute(tables.read(part.vertices), 3));
  geometry.setIndex(new THREE.BufferAttribute(corners, 1));
  // flat shading: each triangle has its own vertices
  const flat = geometry.toNonIndexed();
  flat.computeVertexNormals();
  return flat;
}

const MAKERS = {
  box: (part) => roundedBox(part.size),
  sphere: (part) => new THREE.SphereGeometry(part.size[0], CIRCLE_SEGMENTS, CIRCLE_SEGMENTS / 2),
  cylinder: (part) => roundedCylinder(part.size),
  capsule: (part) => new THREE.CapsuleGeometry(part.size[0], part.size[1], 12, CIRCLE_SEGMENTS).rotateX(Math.PI / 2),
  ellipsoid: (part) => new THREE.SphereGeometry(1, CIRCLE_SEGMENTS, CIRCLE_SEGMENTS / 2).scale(...part.size),
  plane: () => new THREE.PlaneGeometry(40, 40),
  mesh: meshGeometry,
};

export function geometryOf(part, tables) {
  return MAKERS[part.kind](part, tables);
}

export function colorOf([red, green, blue]) {
  return new THREE.Color().setRGB(red, green, blue, THREE.SRGBColorSpace);
}

// Painted metal; other cases of a batch are transparent and cast no shadow.
// Solids of adjacent links overlap: `layer` decides which one is visible where surfaces coincide.
// Robots are drawn without fog, so that they stand out from the water around them.
export function materialOf(color, ghost, layer) {
  const opacity = ghost ? 0.18 : color[3];
  return new THREE.MeshPhysicalMaterial({
    color: colorOf(color),
    fog: false,
    roughness: 0.42,
    metalness: 0.08,
    clearcoat: ghost ? 0 : 0.35,
    clearcoatRoughness: 0.3,
    transparent: opacity < 1,
    opacity,
    depthWrite: opacity >= 1,
    polygonOffset: true,
    polygonOffsetFactor: 0,
    polygonOffsetUnits: 24 * layer,
  });
}

// A short duct with a hub and blades, its thrust along z.
export function thrusterSolid(radius) {
  const dark = new THREE.MeshStandardMaterial({ color: 0x23282e, roughness: 0.5, metalness: 0.3, fog: false });
  const bright = new THREE.MeshStandardMaterial({ color: 0xd8a13a, roughness: 0.35, metalness: 0.5, fog: false });
  const wall = [[0.9, -0.55], [1.0, -0.5], [1.06, 0], [1.0, 0.5], [0.9, 0.55], [0.86, 0], [0.9, -0.55]];
  const outline = wall.map(([across, along]) => new THREE.Vector2(across * radius, along * radius));
  const duct = new THREE.Mesh(new THREE.LatheGeometry(outline, CIRCLE_SEGMENTS).rotateX(Math.PI / 2), dark);
  const propeller = new THREE.Group();
  propeller.add(new THREE.Mesh(new THREE.CapsuleGeometry(0.16 * radius, 0.5 * radius, 6, 16)
    .rotateX(Math.PI / 2), bright));
  for (let k = 0; k < 4; k++) {
    const blade = new THREE.Mesh(new THREE.BoxGeometry(0.7 * radius, 0.24 * radius, 0.04 * radius), bright);
    blade.position.set(0.47 * radius, 0, 0);
    blade.rotation.x = 0.6;
    const arm = new THREE.Group();
    arm.rotation.z = (k * Math.PI) / 2;
    arm.add(blade);
    propeller.add(arm);
  }
  const group = new THREE.Group();
  group.add(duct, propeller);
  group.userData.propeller = propeller;
  return group;
}
