// Search works off pages opened from disk too: there a browser starts no worker of a file, so a hidden frame stands in for it.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      this.waiting = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        if (this.onmessage) this.onmessage(event);
      };
      inside.importScripts = (...addresses) =>
        Promise.all(addresses.map((one) => load(inside, new URL(one, address).href)));
      load(inside, address).then(() => {
        this.ready = true;
        this.waiting.splice(0).forEach((data) => this.postMessage(data));
      });
    }
    postMessage(data) {
      if (!this.ready) return void this.waiting.push(data);
      const inside = this.frame.contentWindow;
      const event = new MessageEvent("message", { data });
      inside.dispatchEvent(event);
      if (inside.onmessage) inside.onmessage(event);
    }
    terminate() {
      this.frame.remove();
    }
  };
  function load(inside, address) {
    return new Promise((done, failed) => {
      const script = inside.document.createElement("script");
      script.src = address;
      script.onload = done;
      script.onerror = failed;
      inside.document.body.append(script);
    });
  }
}
