#pragma once
// Prometheus' text format (version 0.0.4): families of samples, each with its help and type once.

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace mvm::obs {

enum class MetricType : uint8_t { Counter, Gauge };

class MetricsText {
 public:
  using Label = std::pair<std::string_view, std::string_view>;

  // Samples that follow are of this family. Names are ours; texts in labels may be anyone's.
  void family(std::string_view name, MetricType type, std::string_view help);
  void sample(std::initializer_list<Label> labels, uint64_t value);
  // With nine digits behind the point: seconds or dollars from their billionths.
  void sample_nano(std::initializer_list<Label> labels, uint64_t billionths);

  std::string take() { return std::move(text_); }

 private:
  void begin(std::initializer_list<Label> labels);
  std::string text_;
  std::string name_;
};

}
