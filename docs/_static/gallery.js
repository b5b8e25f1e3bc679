// Replays of the gallery open in place: a window over the page with the replay inside.

function openReplay(address, title) {
  const shown = document.createElement("dialog");
  shown.className = "replay-window";
  shown.setAttribute("aria-label", title);
  const frame = document.createElement("iframe");
  frame.src = address;
  frame.title = title;
  const close = document.createElement("button");
  close.textContent = "Close";
  close.addEventListener("click", () => shown.close());
  shown.addEventListener("close", () => shown.remove());
  // a click beside the window closes it
  shown.addEventListener("click", (event) => { if (event.target === shown) shown.close(); });
  shown.append(close, frame);
  document.body.append(shown);
  shown.showModal();
}

document.addEventListener("DOMContentLoaded", () => {
  for (const item of document.querySelectorAll(".gallery li > p")) {
    const picture = item.querySelector("a");
    const name = picture.querySelector("img").alt;
    const open = (event) => {
      event.preventDefault();
      openReplay(`replays/${name}.html`, name);
    };
    picture.title = `replay of ${name}`;
    picture.addEventListener("click", open);
    const button = document.createElement("button");
    button.className = "replay-button";
    button.textContent = "Replay";
    button.addEventListener("click", open);
    item.append(button);
  }
  // on the page of a robot
  for (const link of document.querySelectorAll('a[href^="replays/"]')) {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      openReplay(link.getAttribute("href"), document.title);
    });
  }
});
