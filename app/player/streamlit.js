// The host for Streamlit's components v2. It is called again on every change of `data`, without a clean-up in
// between, so a player is kept for each place it is shown at. The start is part of `data` because state that
// is given as `default` does not come here.
const live = new WeakMap();

export default function ({ parentElement, data, setStateValue }) {
  const known = live.get(parentElement);
  if (known) {
    known.load(data.replay);
  } else {
    const onStep = ({ moment, pin }) => {
      setStateValue("pin", pin);
      setStateValue("step", moment);
    };
    const { replay, moment, pin } = data;
    const options = { moment: moment ?? undefined, pin: pin ?? undefined, page: PAGE, link: () => location.href };
    live.set(parentElement, mount(parentElement, replay, { ...options, onStep }));
  }
  return () => {
    live.get(parentElement)?.stop();
    live.delete(parentElement);
  };
}
