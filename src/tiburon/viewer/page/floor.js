// The ground: a grid on land, sand under water; flat, or over given heights.

import * as THREE from "three";

// Returns 1, 2 or 5 times a power of ten, at most a length.
export function roundLength(length) {
  const power = 10 ** Math.floor(Math.log10(length));
  const times = [5, 2, 1].find((factor) => factor * power <= length);
  return times * power;
}

const PLACE_VERTEX = `
  #include <begin_vertex>
  place = (modelMatrix * vec4(transformed, 1.0)).xyz;`;

const GRID_FRAGMENT = `
  #include <color_fragment>
  vec2 fine = place.xy / spacing;
  vec2 width = fwidth(fine);
  vec2 near = abs(fract(fine - 0.5) - 0.5) / width;
  float line = (1.0 - min(min(near.x, near.y), 1.0)) * (1.0 - smoothstep(0.15, 0.6, max(width.x, width.y)));
  vec2 coarse = fine / 5.0;
  vec2 wide = fwidth(coarse);
  vec2 far = abs(fract(coarse - 0.5) - 0.5) / wide;
  float mark = (1.0 - min(min(far.x, far.y) / 1.4, 1.0)) * (1.0 - smoothstep(0.2, 0.8, max(wide.x, wide.y)));
  diffuseColor.rgb = mix(diffuseColor.rgb, lines, max(0.30 * line, 0.5 * mark));
  float away = length(place.xy - middle) / extent;
  diffuseColor.a *= 1.0 - smoothstep(0.35, 1.0, away);`;

const SAND_FRAGMENT = `
  #include <color_fragment>
  vec2 at = place.xy / spacing;
  float coarseGrain = smoothNoise(at * 0.55) * 0.6 + smoothNoise(at * 1.7) * 0.4;
  float ripple = sin(at.x * 7.0 + 2.6 * smoothNoise(at * 0.8) + 1.2 * sin(at.y * 1.3)) * 0.5 + 0.5;
  diffuseColor.rgb *= 0.80 + 0.24 * coarseGrain + 0.07 * ripple * (1.0 - smoothstep(0.1, 0.5, fwidth(at.x)));
  float away = length(place.xy - middle) / extent;
  diffuseColor.a *= 1.0 - smoothstep(0.55, 1.0, away);`;

const NOISE = `
  float hash(vec2 p) { return fract(sin(dot(p, vec2(41.3, 289.1))) * 45758.5453); }
  float smoothNoise(vec2 p) {
    vec2 i = floor(p), f = fract(p);
    f = f * f * (3.0 - 2.0 * f);
    return mix(mix(hash(i), hash(i + vec2(1, 0)), f.x), mix(hash(i + vec2(0, 1)), hash(i + vec2(1, 1)), f.x), f.y);
  }
`;

function floorMaterial(kind, spacing, extent) {
  const sandy = kind === "sea";
  const material = new THREE.MeshStandardMaterial({
    color: sandy ? 0x9c9f86 : 0xccd2d8,
    roughness: 0.95,
    metalness: 0,
    transparent: true,
    envMapIntensity: 0.5,
  });
  const uniforms = {
    spacing: { value: spacing },
    extent: { value: extent },
    middle: { value: new THREE.Vector2() },
    lines: { value: new THREE.Color(0x66737f) },
  };
  material.onBeforeCompile = (shader) => {
    Object.assign(shader.uniforms, uniforms);
    shader.vertexShader = `varying vec3 place;\n${shader.vertexShader.replace("#include <begin_vertex>", PLACE_VERTEX)}`;
    const declared = "varying vec3 place;\nuniform float spacing, extent;\nuniform vec2 middle;\nuniform vec3 lines;\n";
    shader.fragmentShader = declared + NOISE
      + shader.fragmentShader.replace("#include <color_fragment>", sandy ? SAND_FRAGMENT : GRID_FRAGMENT);
  };
  material.userData.uniforms = uniforms;
  return material;
}

function unevenGeometry(grid, tables) {
  const [rows, columns] = grid.heights.shape;
  const heights = tables.read(grid.heights);
  const places = new Float32Array(3 * rows * columns);
  const corners = [];
  for (let i = 0; i < rows; i++) {
    for (let j = 0; j < columns; j++) {
      const k = i * columns + j;
      places.set([grid.origin[0] + i * grid.spacing[0], grid.origin[1] + j * grid.spacing[1], heights[k]], 3 * k);
      if (i + 1 < rows && j + 1 < columns) {
        // cells are divided from their first corner to the opposite one, as contact divides them
        corners.push(k, k + columns, k + columns + 1, k, k + columns + 1, k + 1);
      }
    }
  }
  const geometry = new THREE.BufferGeometry();
  geometry.setAttribute("position", new THREE.BufferAttribute(places, 3));
  geometry.setIndex(corners);
  geometry.computeVertexNormals();
  return geometry;
}

export class Floor {
  constructor(scene, surroundings, size, extent, tables) {
    this.shown = surroundings.floor !== null;
    if (!this.shown) return;
    const kind = surroundings.water ? "sea" : "land";
    this.material = floorMaterial(kind, roundLength(size / 2.5), extent);
    const { grid } = surroundings;
    const geometry = grid ? unevenGeometry(grid, tables) : new THREE.PlaneGeometry(2 * extent, 2 * extent);
    this.mesh = new THREE.Mesh(geometry, this.material);
    this.flat = !grid;
    // slightly lower, so that feet on the floor do not flicker
    this.height = (this.flat ? surroundings.floor : 0) - 0.002 * size;
    // where gravity is tilted, the ground is a slope
    const [w, x, y, z] = surroundings.tilt ?? [1, 0, 0, 0];
    this.turn = new THREE.Quaternion(x, y, z, w);
    this.level = !surroundings.tilt;
    this.mesh.quaternion.copy(this.turn);
    this.mesh.position.copy(new THREE.Vector3(0, 0, this.height).applyQuaternion(this.turn));
    this.mesh.receiveShadow = true;
    this.mesh.renderOrder = -1;
    scene.add(this.mesh);
  }

  follow(place) {
    if (!this.shown) return;
    this.material.userData.uniforms.middle.value.set(place.x, place.y);
    if (!this.flat) return;
    const below = place.clone().applyQuaternion(this.turn.clone().invert());
    below.z = this.height;
    this.mesh.position.copy(below.applyQuaternion(this.turn));
  }
}
