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
    const link = item.querySelector('a[href^="replays/"]');
    picture.title = link.textContent;
    picture.addEventListener("click", (event) => {
      event.preventDefault();
      link.click();
    });
    link.className = "replay-button";
  }
  for (const link of document.querySelectorAll('a[href^="replays/"]')) {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      openReplay(link.getAttribute("href"), document.title);
    });
  }
});
