#pragma once
// The policy commands of running sandboxes, for the table of commands.cc.

#include <array>
#include <string_view>

#include "mvm/cli/command.h"

#include "shared_flags.h"

namespace mvm::cli {

inline constexpr std::string_view kPolicy = "Network rules";

inline constexpr Option kScope{
    0, "scope", "", "SCOPE",
    "once: for what waits now. session: for all that is equal, until the sandbox ends. Default: "
    "once."};

inline constexpr std::array kRulesPositionals = {
    Positional{"NAME", "The sandbox.", true, false, Offer::Sandboxes},
    Positional{
        "RULE",
        "A host (example.com, *.example.com, example.com:8443), a range (10.1.0.0/16, "
        "10.1.2.3:5432), or an endpoint (\"GET https://example.com/v1/**\"); may be several.",
        true, true}};
inline constexpr std::array kAllowOptions = {kQuiet};
inline constexpr std::array<std::string_view, 3> kAllowExamples = {
    "mvm policy allow agent-sandbox example.com:8443",
    "mvm policy allow agent-sandbox 10.1.2.3:5432",
    "mvm policy allow agent-sandbox 'POST https://api.example.com/v1/items'"};

inline constexpr std::array kDenyPositionals = {
    Positional{"NAME|ID", "The sandbox; or a question, as `mvm policy pending` shows it.", true,
               false, Offer::Sandboxes},
    Positional{"RULE", "As for `policy allow`; may be several. None for a question.", false, true}};
inline constexpr std::array kDenyOptions = {kScope, kQuiet};
inline constexpr std::array<std::string_view, 3> kDenyExamples = {
    "mvm policy deny agent-sandbox '*.example.com'", "mvm policy deny agent-sandbox/4711",
    "mvm policy deny agent-sandbox/4711 --scope session"};

inline constexpr std::array kPolicyListOptions = {
    Option{0, "effective", "", "", "All rules in force, in the order in which they are asked."},
    kName, kJson};
inline constexpr std::array<std::string_view, 2> kPolicyListExamples = {
    "mvm policy ls agent-sandbox", "mvm policy ls agent-sandbox --effective --json"};

inline constexpr std::array kSuggestOptions = {kName};
inline constexpr std::array<std::string_view, 1> kSuggestExamples = {
    "mvm policy suggest agent-sandbox"};

inline constexpr std::array kPendingPositionals = {
    Positional{"NAME", "The sandbox. Default: all that run.", false, false, Offer::Sandboxes}};
inline constexpr std::array kPendingOptions = {Option{'q', "quiet", "", "", "Ids only."}, kJson};
inline constexpr std::array<std::string_view, 2> kPendingExamples = {
    "mvm policy pending", "mvm policy pending agent-sandbox --json"};

inline constexpr std::array kApprovePositionals = {Positional{
    "ID", "The question, as `mvm policy pending` shows it; may be several.", true, true}};
inline constexpr std::array kApproveOptions = {kScope, kQuiet};
inline constexpr std::array<std::string_view, 2> kApproveExamples = {
    "mvm policy approve agent-sandbox/4711",
    "mvm policy approve agent-sandbox/4711 --scope session"};

}
