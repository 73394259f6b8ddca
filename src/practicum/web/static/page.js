// What HTML and htmx do not do by themselves: figures, uploads, copying, saying things aloud.
(function () {
  "use strict";

  var silence;
  function status(text) {
    document.getElementById("status").textContent = text;
    clearTimeout(silence);
    silence = setTimeout(function () { document.getElementById("status").textContent = ""; }, 6000);
  }

  // --- figures: drawn when they come near, redrawn when the colour scheme changes -----------------

  var dark = window.matchMedia("(prefers-color-scheme: dark)");
  var plotly = null; // 5 MB: asked for when the first figure is there

  function withPlotly() {
    plotly = plotly || new Promise(function (resolve, reject) {
      // Plotly puts its rules into a sheet of this name, where there is one: a file's, because the
      // policy of this page allows no style that a script has written.
      var sheet = document.createElement("link");
      sheet.id = "plotly.js-style-global";
      sheet.rel = "stylesheet";
      sheet.href = "/static/plotly.css";
      sheet.onload = function () { load("/static/plotly.min.js", resolve, reject); };
      sheet.onerror = reject;
      document.head.append(sheet);
    });
    return plotly;
  }

  // Plotly writes some styles as attributes, which the policy refuses; as properties they are allowed.
  function stylesAsProperties() {
    var set = Element.prototype.setAttribute;
    Element.prototype.setAttribute = function (name, value) {
      if (name === "style" && this.style) this.style.cssText = value;
      else set.call(this, name, value);
    };
  }

  function load(src, resolve, reject) {
    stylesAsProperties();
    var script = document.createElement("script"), create = document.createElement;
    var restore = function () { delete document.createElement; };
    // its map library brings a style of its own, which would be refused; there are no maps here
    document.createElement = function (name) {
      return create.apply(document, name === "style" ? ["template"] : arguments);
    };
    script.src = src;
    script.onload = function () { restore(); resolve(); };
    script.onerror = function () { restore(); reject(); };
    document.head.append(script);
  }

  function themed(layout) {
    var ink = dark.matches ? "#e6edf3" : "#1b1f24", line = dark.matches ? "#30363d" : "#e1e4e8";
    layout.font = Object.assign({}, layout.font, { color: ink });
    Object.keys(layout).concat(["xaxis", "yaxis"]).forEach(function (name) {
      if (/^[xy]axis\d*$/.test(name)) {
        layout[name] = Object.assign({}, layout[name], { gridcolor: line, zerolinecolor: line, linecolor: line });
      }
      if (/^scene\d*$/.test(name)) ["xaxis", "yaxis", "zaxis"].forEach(function (axis) {
        layout[name][axis] = Object.assign({}, layout[name][axis], { gridcolor: line, color: ink });
      });
    });
    return layout;
  }

  function draw(plot) {
    withPlotly().then(function () {
      var figure = JSON.parse(plot.nextElementSibling.textContent);
      plot.dataset.drawn = "yes";
      window.Plotly.react(plot, figure.data, themed(figure.layout), { responsive: true, displaylogo: false, displayModeBar: false });
    });
  }

  var near = new IntersectionObserver(function (entries) {
    entries.forEach(function (entry) {
      if (entry.isIntersecting) { near.unobserve(entry.target); draw(entry.target); }
    });
  }, { rootMargin: "600px" });

  dark.addEventListener("change", function () { document.querySelectorAll(".plot[data-drawn]").forEach(draw); });

  // --- uploads -----------------------------------------------------------------------------------

  function upload(form, file) {
    var told = form.querySelector(".upload-told"), limit = Number(form.dataset.limit);
    var say = function (text, going) { told.textContent = text; told.classList.toggle("going", !!going); };
    if (file.size > limit) {
      say(file.name + " is larger than " + Math.floor(limit / 1048576) + " MB: name its path instead.");
      return;
    }
    var request = new XMLHttpRequest();
    request.open("POST", "/upload?" + new URLSearchParams({ name: file.name, slug: form.dataset.slug }));
    request.upload.onprogress = function (e) { say("uploading " + Math.round(100 * e.loaded / e.total) + " %", true); };
    request.onerror = function () { say("The server did not take it, or does not answer."); };
    request.onload = function () {
      var answer = {};
      try { answer = JSON.parse(request.responseText); } catch (e) { answer.error = "The server refused it."; }
      if (answer.location) window.location.assign(answer.location);
      else say([answer.error, answer.hint].filter(Boolean).join(": "));
    };
    request.send(file);
  }

  function prepare(root) {
    root.querySelectorAll(".plot").forEach(function (plot) {
      plot.style.minHeight = plot.dataset.height + "px";
      near.observe(plot);
    });
    root.querySelectorAll("form.upload").forEach(function (form) {
      var input = form.querySelector("input");
      input.addEventListener("change", function () { if (input.files.length) upload(form, input.files[0]); });
      form.addEventListener("submit", function (e) { e.preventDefault(); });
      form.addEventListener("dragover", function (e) { e.preventDefault(); form.classList.add("over"); });
      form.addEventListener("dragleave", function () { form.classList.remove("over"); });
      form.addEventListener("drop", function (e) {
        e.preventDefault();
        form.classList.remove("over");
        if (e.dataTransfer.files.length) upload(form, e.dataTransfer.files[0]);
      });
    });
    root.querySelectorAll("[data-tell]").forEach(function (one) { if (root !== document.body) status(one.dataset.tell); });
  }

  document.addEventListener("htmx:load", function (e) { prepare(e.detail.elt); });

  // --- copying, live pages ------------------------------------------------------------------------

  document.addEventListener("click", function (e) {
    var button = e.target.closest(".copy");
    if (!button) return;
    navigator.clipboard.writeText(button.parentElement.querySelector("pre").textContent).then(
      function () { status("Copied"); }, function () { status("The browser does not allow copying"); });
  });

  document.addEventListener("htmx:sseMessage", function (e) {
    if (e.detail.type === "begun") window.location.replace(e.detail.data);
  });
  document.addEventListener("htmx:sseError", function () {
    status("The server does not answer; the run goes on without it. Trying again …");
  });
})();
