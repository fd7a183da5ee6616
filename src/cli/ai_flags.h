#pragma once
// Flags of `mvm ai …` and `mvm metrics`, for the table of commands.cc.

#include "shared_flags.h"

namespace mvm::cli {

inline constexpr std::string_view kAi = "Use of AI";

inline constexpr std::array kAiUsagePositional = {
    Positional{"NAME", "The sandbox; without, all of them.", false, false, Offer::Sandboxes}};
inline constexpr std::array kAiUsageOptions = {kJson};
inline constexpr std::array<std::string_view, 2> kAiUsageExamples = {"mvm ai usage",
                                                                     "mvm ai usage --json web"};
inline constexpr std::array kAiBudgetPositionals = {
    Positional{"ACTION", "set or reset.", true},
    Positional{"NAME", "The sandbox.", true, false, Offer::Sandboxes}};
inline constexpr std::array kAiBudgetOptions = {
    Option{0, "of", "", "WHOM",
           "A provider, such as openai, or run: of each command. Default: all that the sandbox "
           "uses."},
    Option{0, "max-total-tokens", "", "N", "Most tokens, input and output together; 0: no limit."},
    Option{0, "max-input-tokens", "", "N", "Most tokens of input; 0: no limit."},
    Option{0, "max-output-tokens", "", "N", "Most tokens of output; 0: no limit."},
    Option{0, "max-requests", "", "N", "Most requests; 0: no limit."},
    Option{0, "max-cost", "", "DOLLARS", "Most dollars, such as 2.50; 0: no limit."},
    kJson};
inline constexpr std::array<std::string_view, 4> kAiBudgetExamples = {
    "mvm ai budget set web --max-total-tokens 250000",
    "mvm ai budget set web --of openai --max-cost 5",
    "mvm ai budget set web --max-cost 5 --max-requests 0", "mvm ai budget reset web"};
inline constexpr std::array kMetricsOptions = {
    Option{0, "otlp", "", "", "OpenTelemetry's JSON instead of Prometheus' text."}};
inline constexpr std::array<std::string_view, 2> kMetricsExamples = {"mvm metrics",
                                                                     "mvm metrics --otlp"};

}
