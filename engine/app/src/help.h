#pragma once

#include <optional>
#include <string>

#include "host.h"

namespace tessera::app {

/// What `tessera` and `tessera help` say without a topic: verbs, and the topics of `host`.
std::string usage_text();
std::string help_overview(Host& host);

/// Text of one topic: from the option tables and cards, else from `require("tessera").help_topic`.
/// Absent for an unknown topic.
std::optional<std::string> help_topic(Host& host, const std::string& topic);

/// "; did you mean ...?" for an unknown topic.
std::string nearest_topics(Host& host, const std::string& topic);

}  // namespace tessera::app
