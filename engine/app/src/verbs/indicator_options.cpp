#include "indicator_lua.h"
#include "verbs.h"

namespace tessera::app {

const OptionTable& indicator_verb_options() {
  static const OptionTable table = [] {
    OptionTable t{"tessera indicator",
                  "How sensitive every layer of a model on disk is at every bitwidth",
                  "",
                  {}};
    // ts.indicator's own records, so that flags and options cannot disagree.
    for (const OptionSpec& option : indicator_lua::indicator_options().options) {
      if (option.name == "model" || option.name == "out" || option.type == OptionType::callback) {
        continue;
      }
      t.options.push_back(option);
      if (option.name == "kind") t.options.back().default_text = "\"variance\"";
    }
    t.options.push_back({.name = "out",
                         .type = OptionType::text,
                         .doc =
                             "Writes it as JSON to this file, which --indicator of `tessera plan` "
                             "takes; loss and divergence go on from what they left in OUT.part"});
    return t;
  }();
  return table;
}

}  // namespace tessera::app
