// Unpacks the modules of the page, links them and starts the last one.
"use strict";
(async () => {
  const message = document.getElementById("message");
  const complain = (text) => {
    message.textContent = text;
    message.hidden = false;
    message.classList.add("problem");
  };
  window.addEventListener("error", (event) => complain(`This page stopped: ${event.message}`));
  if (!("DecompressionStream" in window)) {
    complain("This browser cannot unpack the page; one from 2023 or later can.");
    return;
  }
  const inflated = async (id) => {
    const text = document.getElementById(id).textContent;
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Response(stream).arrayBuffer();
  };
  try {
    const [code, numbers] = await Promise.all([inflated("code"), inflated("numbers")]);
    const modules = JSON.parse(new TextDecoder().decode(code));
    const places = {};
    for (const [name, source] of modules) {
      // replace imports of earlier modules by their object URLs
      const tied = source.replace(/from "([^"]+)";/g, (whole, other) =>
        other in places ? `from "${places[other]}";` : whole);
      places[name] = URL.createObjectURL(new Blob([tied], { type: "text/javascript" }));
    }
    const { start } = await import(places["./main.js"]);
    const record = JSON.parse(document.getElementById("document").textContent);
    start(record, new Uint8Array(numbers));
    message.hidden = true;
  } catch (error) {
    complain(`This replay cannot be shown: ${error.message}`);
    throw error;
  }
})();
