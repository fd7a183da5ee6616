#pragma once
// Prometheus' text format (version 0.0.4): families of samples, each with its help and type once.

#include <cstdint>
#include <initializer_list>
#include <span>
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
  void sample(std::span<const Label> labels, uint64_t value);
  void sample(std::initializer_list<Label> labels, uint64_t value) {
    sample(std::span(labels.begin(), labels.size()), value);
  }
  // With nine digits behind the point: seconds or dollars from their billionths.
  void sample_nano(std::span<const Label> labels, uint64_t billionths);
  void sample_nano(std::initializer_list<Label> labels, uint64_t billionths) {
    sample_nano(std::span(labels.begin(), labels.size()), billionths);
  }

  std::string take() { return std::move(text_); }

 private:
  void begin(std::span<const Label> labels);
  std::string text_;
  std::string name_;
};

}
