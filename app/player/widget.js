// The host for Jupyter and what speaks its protocol (anywidget): `replay`, `moment` and `pin` are the model's.
export default {
  render({ model, el }) {
    const onStep = ({ moment, pin }) => {
      model.set("moment", moment);
      model.set("pin", pin);
      model.save_changes();
    };
    const options = { moment: model.get("moment") ?? undefined, pin: model.get("pin") ?? undefined, page: PAGE };
    const player = mount(el, model.get("replay"), { ...options, onStep });
    const load = () => player.load(model.get("replay"));
    const seek = () => model.get("moment") !== null && model.get("moment") !== player.head.moment && player.head.seek(model.get("moment"));
    model.on("change:replay", load);
    model.on("change:moment", seek);
    return () => {
      model.off("change:replay", load);
      model.off("change:moment", seek);
      player.stop();
    };
  },
};
