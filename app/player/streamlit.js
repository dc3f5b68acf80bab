// The host for Streamlit's components v2. It is called again on every change of `data`, without a clean-up in
// between, so a player is kept for each place it is shown at. The start is part of `data` because state that
// is given as `default` does not come here.
const live = new WeakMap();

export default function ({ parentElement, data, setStateValue }) {
  const known = live.get(parentElement);
  if (known) {
    known.load(data.replay);
  } else {
    const { replay, moment, pin } = data;
    const onStep = (now) => {
      if (pin !== undefined) setStateValue("pin", now.pin); // a page that does not ask for it has no place for it
      setStateValue("step", now.moment);
    };
    const options = { moment: moment ?? undefined, pin: pin ?? undefined, page: PAGE, link: () => location.href };
    live.set(parentElement, mount(parentElement, replay, { ...options, onStep }));
  }
  return () => {
    live.get(parentElement)?.stop();
    live.delete(parentElement);
  };
}
