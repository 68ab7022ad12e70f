// Draws every element with data-series, once, and again when its numbers change.
(() => {
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const ago = (s) => s === 0 ? "now" : s > -180 ? `${-s} s ago` : `${Math.round(-s / 6) / 10} min ago`;
  const height = (figure) => figure.dataset.x === "calls" ? 70 : 160;
  const drawn = new WeakMap();
  const draw = (figure) => {
    const said = figure.dataset.series;
    if (drawn.get(figure)?.said === said && figure.firstElementChild) return;
    drawn.get(figure)?.plot.destroy();
    const { x, lines } = JSON.parse(said);
    if (!x.length) return;
    const along = figure.dataset.x;
    const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
    const across = along === "calls" ? { show: false } : axis;
    const below = along === "order" || along === "calls" ? { show: false } : axis;
    const plot = new uPlot({
      width: figure.clientWidth || 300,
      height: height(figure),
      padding: [null, null, below.show === false ? 10 : null, null],
      legend: { show: lines.length > 1, live: false, markers: { fill: (u, n) => u.series[n].stroke(u, n) } },
      cursor: { show: false },
      scales: {
        x: { time: along === "time", range: along === "calls" ? [-1, x.length] : undefined },
        y: { range: (_u, low, high) => [Math.min(0, low), along === "calls" ? 1 : high * 1.05 || 1] },
      },
      axes: [along === "ago" ? { ...below, space: 90, values: (_u, at) => at.map(ago) } : below, { ...across, size: 60 }],
      series: [{}, ...lines.map((line) => ({
        label: line.name,
        stroke: colour(line.colour || "--link"),
        fill: along === "calls" ? colour(line.colour) : undefined,
        dash: line.dashed ? [4, 4] : undefined,
        width: along === "calls" ? 0 : 2,
        paths: along === "calls" ? uPlot.paths.bars({ size: [0.8, 24] }) : undefined,
        points: { show: along !== "calls" && x.length < 2 },
      }))],
    }, [x, ...lines.map((line) => line.y)], figure);
    drawn.set(figure, { said, plot });
  };
  const all = () => document.querySelectorAll("[data-series]").forEach(draw);
  for (const name of ["DOMContentLoaded", "htmx:afterSwap", "htmx:load"]) document.addEventListener(name, all);
  window.addEventListener("resize", () => {
    document.querySelectorAll("[data-series]").forEach((figure) => {
      drawn.get(figure)?.plot.setSize({ width: figure.clientWidth, height: height(figure) });
    });
  });
})();
