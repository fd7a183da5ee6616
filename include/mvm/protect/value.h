#pragma once
// One value, whole in memory, looked at with the words that go before it: a member of a JSON
// document, a form's field, a header. What is found may be replaced.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mvm/protect/finding.h"
#include "mvm/protect/pattern.h"
#include "mvm/protect/scanner.h"

namespace mvm::protect {

// What stands in a finding's place; nothing: it stays.
using Replace = std::function<std::optional<std::string>(const Finding&, std::string_view value)>;

// What is looked for.
struct Detectors {
  Detectors(ClassSet wanted = ClassSet::all(),
            std::shared_ptr<const PatternSet> own = nullptr) noexcept
      : classes(wanted), patterns(std::move(own)) {}
  ClassSet classes;
  std::shared_ptr<const PatternSet> patterns;
};

struct Change {
  size_t offset = 0;
  size_t length = 0;
  std::string text;
};

class ValueScanner {
 public:
  explicit ValueScanner(Detectors detectors)
      : detectors_(std::move(detectors)), scanner_(detectors_.classes) {}

  // In order, not overlapping. `label` is what the value is called; nothing is found in it.
  std::vector<Change> look(std::string_view label, std::string_view value, const Replace& replace);
  // Nothing: it stays as it is.
  std::optional<std::string> rewritten(std::string_view label, std::string_view value,
                                       const Replace& replace);

 private:
  Detectors detectors_;
  Scanner scanner_;
};

// ---- percent-encoded text, looked at as what it stands for. What is replaced is written as the
// text around it is; all else stays byte for byte, also escapes that are none.

enum class UrlText : uint8_t {
  Form,    // '+' is a blank
  Path,    // of a target: segment by segment, each called by the one before it
  Header,  // a field's value: it may hold escapes, in addresses
};
std::optional<std::string> rewritten_url_text(ValueScanner& scanner, std::string_view label,
                                              std::string_view text, UrlText kind,
                                              const Replace& replace);
// "name=value&name=value"; names are looked at too.
std::optional<std::string> rewritten_pairs(ValueScanner& scanner, std::string_view pairs,
                                           const Replace& replace);

// What stands for what: `text` is decoded, and its byte i began at `at[i]`; `at` has one more for
// the end. With no `at` the text was as it is.
struct Decoded {
  std::string text;
  std::vector<uint32_t> at;
  size_t begin_of(size_t i) const { return at.empty() ? i : at[i]; }
};
// `raw` with the changes of its decoded form; `written` says how a replacement is spelt, given
// whether what stood there had escapes.
std::string applied(
    std::string_view raw, const Decoded& decoded, const std::vector<Change>& changes,
    const std::function<std::string(const std::string& text, bool escaped)>& written);

}
