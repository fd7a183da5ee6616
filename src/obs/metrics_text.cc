#include "mvm/obs/metrics_text.h"

namespace mvm::obs {

static void append_escaped(std::string& out, std::string_view text, bool quotes) {
  for (const char c : text) {
    if (c == '\\' || (quotes && c == '"')) {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
}

void MetricsText::family(std::string_view name, MetricType type, std::string_view help) {
  name_ = name;
  text_ += "# HELP " + name_ + ' ';
  append_escaped(text_, help, false);
  text_ += "\n# TYPE " + name_ + (type == MetricType::Counter ? " counter\n" : " gauge\n");
}

void MetricsText::begin(std::span<const Label> labels) {
  text_ += name_;
  char separator = '{';
  for (const auto& [name, value] : labels) {
    text_ += separator;
    text_ += name;
    text_ += "=\"";
    append_escaped(text_, value, true);
    text_ += '"';
    separator = ',';
  }
  if (!labels.empty()) text_ += '}';
  text_ += ' ';
}

void MetricsText::sample(std::span<const Label> labels, uint64_t value) {
  begin(labels);
  text_ += std::to_string(value) + '\n';
}

void MetricsText::sample_nano(std::span<const Label> labels, uint64_t billionths) {
  constexpr uint64_t kWhole = 1'000'000'000;
  begin(labels);
  text_ += std::to_string(billionths / kWhole) + '.' +
           std::to_string(kWhole + billionths % kWhole).substr(1) + '\n';
}

}
