// Light and background: a bright studio on land, blue depth under water, stars in space.

import * as THREE from "three";

export const MOODS = {
  land: { top: 0x8fb0cf, middle: 0xd9e3ea, bottom: 0xb9c3cb, sun: 2.2, fill: 0.42, fog: null },
  sea: { top: 0x6cc6d8, middle: 0x1d6b88, bottom: 0x072a41, sun: 2.3, fill: 1.0, fog: 0x1d6b88 },
  space: { top: 0x0b1020, middle: 0x121a2e, bottom: 0x070a14, sun: 2.6, fill: 0.45, fog: null },
};

// reflections under water: paler than the water, or yellow would look green
const SHALLOW = { top: 0xe4f4f6, middle: 0x9fc0c8, bottom: 0x5c8088 };

const GRADIENT_VERTEX = `
  varying vec3 direction;
  void main() {
    direction = position;
    gl_Position = projectionMatrix * vec4(mat3(viewMatrix) * position, 1.0);
    gl_Position.z = gl_Position.w; // far plane
  }`;

const GRADIENT_FRAGMENT = `
  uniform vec3 top, middle, bottom;
  varying vec3 direction;
  void main() {
    float height = normalize(direction).z;
    vec3 color = height > 0.0 ? mix(middle, top, pow(height, 0.7)) : mix(middle, bottom, pow(-height, 0.55));
    gl_FragColor = vec4(color, 1.0);
    #include <colorspace_fragment>
  }`;

function gradient(mood) {
  const uniforms = {};
  for (const name of ["top", "middle", "bottom"]) uniforms[name] = { value: new THREE.Color(mood[name]) };
  const material = new THREE.ShaderMaterial({
    uniforms,
    vertexShader: GRADIENT_VERTEX,
    fragmentShader: GRADIENT_FRAGMENT,
    side: THREE.BackSide,
    depthWrite: false,
  });
  const ball = new THREE.Mesh(new THREE.SphereGeometry(1, 32, 16), material);
  ball.frustumCulled = false;
  ball.renderOrder = -10;
  return ball;
}

// Environment map: a room with bright panels above and a softer one at the side.
function environment(renderer, mood) {
  const room = new THREE.Scene();
  const wall = gradient(mood);
  wall.scale.setScalar(10);
  room.add(wall);
  const panel = new THREE.MeshBasicMaterial({ color: new THREE.Color(4, 4, 4), side: THREE.DoubleSide });
  for (const [x, y, z, size] of [[3, -4, 6, 4], [-6, 2, 3, 2.5], [1, 6, 4, 2]]) {
    const sheet = new THREE.Mesh(new THREE.PlaneGeometry(size, size), panel);
    sheet.position.set(x, y, z);
    sheet.lookAt(0, 0, 0);
    room.add(sheet);
  }
  const maker = new THREE.PMREMGenerator(renderer);
  const { texture } = maker.fromScene(room, 0.03);
  maker.dispose();
  return texture;
}

function stars(size) {
  const count = 900;
  const places = new Float32Array(3 * count);
  let seed = 7;
  const next = () => (seed = (seed * 16807) % 2147483647) / 2147483647;
  const direction = new THREE.Vector3();
  for (let i = 0; i < count; i++) {
    direction.set(next() - 0.5, next() - 0.5, next() - 0.5).normalize().multiplyScalar(80 * size);
    direction.toArray(places, 3 * i);
  }
  const geometry = new THREE.BufferGeometry();
  geometry.setAttribute("position", new THREE.BufferAttribute(places, 3));
  return new THREE.Points(geometry, new THREE.PointsMaterial({ color: 0xaab8d8, size: 1.6, sizeAttenuation: false }));
}

export class Sky {
  constructor(scene, renderer, size) {
    this.scene = scene;
    this.renderer = renderer;
    this.size = size;
    this.mood = "";
    this.looks = {};
    this.sun = new THREE.DirectionalLight(0xfff6e8, 2);
    this.fill = new THREE.HemisphereLight(0xffffff, 0x8a8f98, 0.6);
    const { shadow } = this.sun;
    this.sun.castShadow = true;
    shadow.mapSize.set(2048, 2048);
    shadow.radius = 5;
    shadow.bias = -0.0004;
    shadow.normalBias = 0.006 * size;
    const reach = 2.4 * size;
    Object.assign(shadow.camera, { left: -reach, right: reach, top: reach, bottom: -reach, near: 0.1 * size, far: 14 * size });
    scene.add(this.sun, this.sun.target, this.fill);
  }

  // Switches between land, sea and space; textures are cached.
  setMood(name) {
    if (name === this.mood) return;
    this.mood = name;
    const mood = MOODS[name];
    if (!(name in this.looks)) {
      const shown = new THREE.Group();
      shown.add(gradient(mood));
      if (name === "space") shown.add(stars(this.size));
      this.scene.add(shown);
      this.looks[name] = { shown, mirrored: environment(this.renderer, name === "sea" ? SHALLOW : mood) };
    }
    for (const [other, look] of Object.entries(this.looks)) look.shown.visible = other === name;
    this.scene.environment = this.looks[name].mirrored;
    this.scene.environmentIntensity = name === "sea" ? 0.75 : 0.55;
    this.scene.fog = mood.fog === null ? null : new THREE.FogExp2(mood.fog, 0.085 / this.size);
    this.sun.intensity = mood.sun;
    this.sun.color.set(name === "sea" ? 0xf2fbff : 0xfff4e4);
    this.fill.intensity = mood.fill;
    this.fill.color.set(name === "sea" ? 0xcdeaf2 : 0xf4f8ff);
    this.fill.groundColor.set(name === "sea" ? 0x3d6470 : 0x9a968e);
  }

  // The shadow map covers the surroundings of the robot only.
  follow(place) {
    this.sun.target.position.copy(place);
    this.sun.position.set(place.x + 2.2 * this.size, place.y - 3.2 * this.size, place.z + 5.5 * this.size);
  }
}
