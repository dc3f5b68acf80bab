// Where in the replay we are, and how that changes: steps, jumps, playing, a range to loop over.

export const SPEEDS = [0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
const WHOLE_RUN_S = 60; // the default speed shows the whole run in about this time
const CALM_SPEED = 2; // at least so fast; and no faster where people ask for reduced motion
const APPROACH_S = 1.5; // to the next question

export const isCalm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

export class Playhead {
  // `host`: onMove(now) paints a moment, with the time of the frame while playing; onRest() hears that we came
  // to rest, onMode() that playing, speed or loop changed; `limit` is the moment that may not be passed.
  constructor(host) {
    this.host = host;
    this.moment = 0;
    this.isPlaying = false;
    this.loop = []; // moments: none, its start, or start and end
  }

  // A replay of other length. `stops` are moments worth a look.
  load(numMoments, stops) {
    this.last = numMoments - 1;
    this.stops = stops;
    this.loop = [];
    const usual = SPEEDS.find((speed) => speed * WHOLE_RUN_S >= numMoments) ?? SPEEDS.at(-1);
    this.speed ??= isCalm() ? CALM_SPEED : Math.max(CALM_SPEED, usual);
  }

  get end() {
    return Math.min(this.last, this.host.limit);
  }

  // `isFinal`: people came to rest here.
  seek(moment, isFinal = true) {
    this.pause();
    this.moment = Math.min(this.end, Math.max(0, moment));
    this.host.onMove();
    if (isFinal) this.host.onRest();
  }

  step(direction) {
    this.seek(this.moment + direction);
  }

  seekStop(direction) {
    const { moment, stops, last } = this;
    const found = direction > 0 ? stops.find((stop) => stop > moment) : stops.findLast((stop) => stop < moment);
    this.seek(found ?? (direction > 0 ? last : 0));
  }

  toggle() {
    if (this.isPlaying) this.pause();
    else this.play();
  }

  play({ until = this.last, speed = null, onEnd = () => {} } = {}) {
    if (this.moment === this.last) this.moment = 0;
    this.isPlaying = true;
    let before = null;
    let due = 0;
    const frame = (now) => {
      if (!this.isPlaying) return;
      due += before === null ? 0 : ((now - before) / 1000) * (speed ?? this.speed);
      before = now;
      const whole = Math.floor(due);
      due -= whole;
      if (whole) {
        this.moment = this.after(whole, until);
        this.host.onMove(now);
      }
      if (this.moment < Math.min(until, this.end) || this.isLooping) {
        requestAnimationFrame(frame);
      } else {
        this.pause();
        onEnd();
      }
    };
    requestAnimationFrame(frame);
    this.host.onMode();
  }

  get isLooping() {
    return this.loop.length === 2;
  }

  after(count, until) {
    const next = this.moment + count;
    if (this.isLooping && next > this.loop[1]) return this.loop[0];
    return Math.min(until, this.end, next);
  }

  // Plays to a moment that lies ahead in a second or two, or goes there at once; then calls `onEnd`.
  approach(moment, onEnd) {
    this.pause();
    this.loop = [];
    if (moment <= this.moment || isCalm()) {
      this.seek(moment);
      onEnd();
    } else {
      this.play({ until: moment, speed: (moment - this.moment) / APPROACH_S, onEnd });
    }
  }

  pause() {
    if (!this.isPlaying) return;
    this.isPlaying = false;
    this.host.onMode();
    this.host.onMove();
    this.host.onRest();
  }

  changeSpeed(direction) {
    const at = SPEEDS.indexOf(this.speed) + direction;
    this.speed = SPEEDS[Math.min(SPEEDS.length - 1, Math.max(0, at))];
    this.host.onMode();
  }

  // The first call marks where a loop begins, the second where it ends, the third ends it.
  loopHere() {
    this.loop = this.isLooping ? [] : [...this.loop, this.moment].sort((a, b) => a - b);
    this.host.onMode();
    if (this.isLooping && !this.isPlaying) this.play();
  }
}
