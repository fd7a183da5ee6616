// Rules, paths and requests as text. What is read as a rule is spelled again to the same rule; a
// path that has a normal form is matched by the pattern made of it; and what is suggested for a
// request that no rule admits is one word for a shell, and admits it.

#include <cstdlib>
#include <string>

#include "mvm/policy/change.h"
#include "mvm/policy/compile.h"

namespace {

using namespace mvm;
using namespace mvm::policy;

void check_rule(std::string_view text) {
  const auto word = parse_rule(text);
  if (!word) return;
  const auto again = parse_rule(word->text);
  if (!again || again->kind != word->kind || again->text != word->text) std::abort();
  Policy policy;
  apply({{word->text}, {}}, policy);
  apply({{}, {word->text}}, policy);
}

void check_request(std::string_view method, std::string_view target) {
  if (method.empty()) return;  // a connection: nothing of the guest's is in its flag
  Request request;
  request.host = dns::Name::parse("a.example");
  request.port = 443;
  request.method = method;
  request.target = target;
  // What is sent is what was judged, and has nothing left to take out.
  const std::string sent = canonical_target(target);
  if (normal_path(sent) != normal_path(target) || canonical_target(sent) != sent) std::abort();
  const auto flag = suggestion(request, decide({}, request));
  if (!flag) return;
  const size_t first = flag->find('\'');
  if (first == flag->npos || flag->find('\'', first + 1) != flag->size() - 1) std::abort();
  Policy policy;
  apply({{std::string(suggested_rule(*flag))}, {}}, policy);
  if (decide(policy, request).outcome != Outcome::Allow) std::abort();
}

}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t line = text.find('\n');
  check_rule(text.substr(0, line));
  if (line != text.npos) check_request(text.substr(0, line), text.substr(line + 1));
  return 0;
}
