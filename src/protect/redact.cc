#include "mvm/protect/redact.h"

#include "mvm/protect/restore.h"

namespace mvm::protect {
namespace {

struct Replacing final : ScanSink {
  explicit Replacing(std::string& to) : out(to) {}
  void clean(std::string_view bytes) override { out += bytes; }
  void found(const Finding&, std::string_view) override { out += kRedacted; }
  std::string& out;
};

}

void Redactor::feed(std::string_view bytes, std::string& out) {
  Replacing sink(out);
  scanner_.feed(bytes, sink);
}

void Redactor::finish(std::string& out) {
  Replacing sink(out);
  scanner_.finish(sink);
}

}
