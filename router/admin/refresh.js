// Replaces the page's content every 2 s, leaving scroll positions alone.
"use strict";
async function refresh() {
  if (document.hidden) return;
  try {
    const answer = await fetch(location.href, { cache: "no-store" });
    if (!answer.ok) throw new Error(answer.status);
    const next = new DOMParser().parseFromString(await answer.text(), "text/html");
    const scrolled = [...document.querySelectorAll(".wide")].map((e) => e.scrollLeft);
    document.querySelector("main").replaceWith(next.querySelector("main"));
    document.querySelectorAll(".wide").forEach((e, i) => { e.scrollLeft = scrolled[i] ?? 0; });
    document.body.style.opacity = "";
  } catch {
    document.body.style.opacity = "0.5"; // what is shown is old
  }
}
setInterval(refresh, 2000);
