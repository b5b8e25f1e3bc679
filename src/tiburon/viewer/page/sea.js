// The water: its surface, drifting particles as a motion cue, and arrows of the current.

import * as THREE from "three";
import { ArrowField } from "./arrows.js";
import { bracket } from "./decode.js";

const SPECKS = 700;

function surfaceMesh(height, extent, size) {
  const uniforms = {
    seconds: { value: 0 },
    extent: { value: extent },
    wave: { value: 0.8 * size },
    middle: { value: new THREE.Vector2() },
  };
  const material = new THREE.ShaderMaterial({
    uniforms,
    transparent: true,
    depthWrite: false,
    side: THREE.DoubleSide,
    vertexShader: `
      varying vec3 place;
      void main() {
        vec4 at = modelMatrix * vec4(position, 1.0);
        place = at.xyz;
        gl_Position = projectionMatrix * viewMatrix * at;
      }`,
    fragmentShader: `
      uniform float seconds, extent, wave;
      uniform vec2 middle;
      varying vec3 place;
      vec2 slope(vec2 p, float t) {
        vec2 s = vec2(0.0);
        s += vec2(0.8, 0.6) * cos(dot(p, vec2(0.8, 0.6)) * 2.1 + t * 1.1);
        s += vec2(-0.5, 0.87) * cos(dot(p, vec2(-0.5, 0.87)) * 3.4 + t * 1.6) * 0.6;
        s += vec2(0.97, -0.24) * cos(dot(p, vec2(0.97, -0.24)) * 5.3 + t * 2.1) * 0.4;
        return s * 0.07;
      }
      void main() {
        vec3 look = normalize(cameraPosition - place);
        float side = look.z > 0.0 ? 1.0 : -1.0;
        vec3 normal = normalize(vec3(-slope(place.xy / wave, seconds), 1.0)) * side;
        float rim = pow(1.0 - max(dot(look, normal), 0.0), 3.0);
        vec3 half_way = normalize(look + normalize(vec3(2.2, -3.2, 5.5)) * side);
        float glint = pow(max(dot(half_way, normal), 0.0), 120.0);
        vec3 above = mix(vec3(0.05, 0.36, 0.46), vec3(0.72, 0.86, 0.93), rim);
        vec3 below = mix(vec3(0.50, 0.86, 0.93), vec3(0.10, 0.45, 0.56), rim);
        vec3 color = (side > 0.0 ? above : below) + glint * 0.8;
        float fade = 1.0 - smoothstep(0.4, 1.0, length(place.xy - middle) / extent);
        gl_FragColor = vec4(color, (0.45 + 0.35 * rim) * fade);
        #include <colorspace_fragment>
      }`,
  });
  const mesh = new THREE.Mesh(new THREE.PlaneGeometry(2 * extent, 2 * extent), material);
  mesh.position.z = height;
  mesh.renderOrder = 5;
  return mesh;
}

function speckCloud(size) {
  const places = new Float32Array(3 * SPECKS);
  let seed = 11;
  for (let i = 0; i < places.length; i++) {
    seed = (seed * 16807) % 2147483647;
    places[i] = (seed / 2147483647) * 8 * size;
  }
  const geometry = new THREE.BufferGeometry();
  geometry.setAttribute("position", new THREE.BufferAttribute(places.slice(), 3));
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 32;
  const pen = canvas.getContext("2d");
  const soft = pen.createRadialGradient(16, 16, 0, 16, 16, 16);
  soft.addColorStop(0, "rgba(255,255,255,1)");
  soft.addColorStop(1, "rgba(255,255,255,0)");
  pen.fillStyle = soft;
  pen.fillRect(0, 0, 32, 32);
  const material = new THREE.PointsMaterial({
    map: new THREE.CanvasTexture(canvas), color: 0xd6f3f5, size: 0.022 * size, transparent: true,
    opacity: 0.5, depthWrite: false,
  });
  const points = new THREE.Points(geometry, material);
  points.frustumCulled = false;
  return { points, places };
}

export class Sea {
  constructor(scene, water, size, extent, tables) {
    this.water = water;
    this.group = new THREE.Group();
    scene.add(this.group);
    this.size = size;
    this.drift = new THREE.Vector3();
    if (water.surface !== null) {
      this.surface = surfaceMesh(water.surface, extent, size);
      this.group.add(this.surface);
    }
    this.cloud = speckCloud(size);
    this.group.add(this.cloud.points);
    if (water.current) this.readCurrent(tables);
  }

  readCurrent(tables) {
    const { points, velocity, times, fastest } = this.water.current;
    this.points = tables.read(points);
    this.velocity = tables.read(velocity);
    this.times = tables.read(times);
    this.fastest = fastest;
    this.field = new ArrowField(this.group, points.shape[0], 0.42 * this.size);
    this.shownFrame = null;
  }

  isUnder(camera) {
    return this.water.surface === null || camera.position.z < this.water.surface;
  }

  // Velocity of the water at a sampled point, interpolated in time.
  flow(i, { first, second, share }) {
    const count = this.points.length;
    const mixed = [0, 1, 2].map((k) => (1 - share) * this.velocity[first * count + 3 * i + k]
      + share * this.velocity[second * count + 3 * i + k]);
    return new THREE.Vector3(...mixed);
  }

  update(time, seconds, around) {
    if (this.surface) {
      const { uniforms } = this.surface.material;
      uniforms.seconds.value = seconds;
      this.surface.position.set(around.x, around.y, this.surface.position.z);
      uniforms.middle.value.set(around.x, around.y);
    }
    if (this.field) {
      const between = bracket(this.times, time);
      const count = this.points.length / 3;
      const mean = new THREE.Vector3();
      const point = new THREE.Vector3();
      for (let i = 0; i < count; i++) {
        const vector = this.flow(i, between);
        mean.add(vector);
        this.field.set(i, point.fromArray(this.points, 3 * i), vector, this.fastest);
      }
      this.field.changed();
      this.drift.copy(mean).multiplyScalar(time / count);
    }
    this.moveSpecks(around);
  }

  // Particles fill a periodic box around the camera target.
  moveSpecks(around) {
    const box = 8 * this.size;
    const places = this.cloud.points.geometry.attributes.position;
    const center = [around.x, around.y, around.z];
    const moved = [this.drift.x, this.drift.y, this.drift.z];
    const top = this.water.surface === null ? Infinity : this.water.surface;
    for (let i = 0; i < SPECKS; i++) {
      for (let k = 0; k < 3; k++) {
        const low = center[k] - box / 2;
        const at = this.cloud.places[3 * i + k] + moved[k] - low;
        const inside = low + (((at % box) + box) % box);
        places.setComponent(i, k, k === 2 ? Math.min(inside, top) : inside);
      }
    }
    places.needsUpdate = true;
  }
}
