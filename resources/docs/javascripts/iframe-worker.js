// The search of the site runs in a worker, and browsers refuse workers to pages that
// are opened as files. There, a hidden frame runs the worker's script instead.
if (location.protocol === "file:") {
  const load = (document, url) => new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = url;
    script.onload = resolve;
    script.onerror = () => reject(new Error(`${url} cannot be loaded`));
    document.head.appendChild(script);
  });

  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.appendChild(this.frame);
      const scope = this.frame.contentWindow;
      const send = (target, data) =>
        target.dispatchEvent(new MessageEvent("message", { data }));
      scope.postMessage = (data) => setTimeout(() => send(this, data));
      scope.importScripts = (...urls) => urls.reduce(
        (before, next) => before.then(() => load(scope.document, next)),
        Promise.resolve());
      this.ready = load(scope.document, new URL(url, location.href));
      this.send = (data) => send(scope, data);
    }

    postMessage(data) {
      this.ready = this.ready.then(() => this.send(data));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
