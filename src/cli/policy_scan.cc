// `mvm policy scan FILE`: what the detectors find in a file. Classes and places, never a value.

#include <array>

#include <fcntl.h>

#include "mvm/base/text.h"
#include "mvm/cli/actions.h"
#include "mvm/json/json.h"
#include "mvm/protect/scanner.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"

namespace mvm::cli {
namespace {

constexpr size_t kPiece = size_t{256} * 1024;
constexpr size_t kMaxPlaces = 10'000;  // listed; all are counted

struct Place {
  protect::PiiClass kind;
  std::string_view detail;
  uint64_t line;
  uint64_t column;  // in bytes, from 1
  size_t length;
};

class Places final : public protect::ScanSink {
 public:
  std::vector<Place> places;
  std::array<uint64_t, protect::kPiiClasses> counts{};
  uint64_t total = 0;

  void clean(std::string_view bytes) override { pass(bytes); }
  void found(const protect::Finding& finding, std::string_view value) override {
    ++total;
    ++counts.at(static_cast<size_t>(finding.kind));
    if (places.size() < kMaxPlaces)
      places.push_back({finding.kind, finding.detail, line_, column_, finding.length});
    pass(value);
  }

 private:
  void pass(std::string_view bytes) {
    for (const char c : bytes) {
      ++column_;
      if (c != '\n') continue;
      ++line_;
      column_ = 1;
    }
  }

  uint64_t line_ = 1;
  uint64_t column_ = 1;
};

std::string as_json(const std::string& file, const Places& found) {
  json::Value out = {{"file", file}, {"total", found.total}};
  out["findings"] = json::Value::array();
  for (const Place& place : found.places)
    out["findings"].push_back({{"class", class_name(place.kind)},
                               {"detail", place.detail},
                               {"line", place.line},
                               {"column", place.column},
                               {"length", place.length}});
  out["counts"] = json::Value::object();
  for (size_t i = 0; i < found.counts.size(); ++i)
    if (found.counts.at(i) > 0)
      out["counts"][std::string(class_name(static_cast<protect::PiiClass>(i)))] =
          found.counts.at(i);
  return json::dump(out) + '\n';
}

std::string as_text(const std::string& file, const Places& found) {
  std::string out;
  for (const Place& place : found.places) {
    out += file + ':' + std::to_string(place.line) + ':' + std::to_string(place.column) + ": " +
           std::string(class_name(place.kind));
    if (!place.detail.empty()) out += " (" + std::string(place.detail) + ')';
    out += '\n';
  }
  if (found.total > found.places.size())
    out += "… and " + std::to_string(found.total - found.places.size()) + " more places\n";
  if (found.total == 0) return file + ": nothing found\n";
  std::vector<std::vector<std::string>> rows = {{"CLASS", "COUNT"}};
  for (size_t i = 0; i < found.counts.size(); ++i)
    if (found.counts.at(i) > 0)
      rows.push_back({std::string(class_name(static_cast<protect::PiiClass>(i))),
                      std::to_string(found.counts.at(i))});
  return out + '\n' + table(rows);
}

}

int policy_scan(Context& context, const Arguments& arguments) {
  const std::string file = *arguments.positional("FILE");
  const sys::Fd fd = sys::open_file(context.absolute(file), O_RDONLY);
  Places found;
  protect::Scanner scanner;
  std::vector<std::byte> piece(kPiece);
  for (;;) {
    const auto got = sys::read_some(fd.get(), piece);
    if (!got || *got == 0) break;
    scanner.feed(mvm::as_text(ByteView(piece).first(*got)), found);
  }
  scanner.finish(found);
  const std::string shown = printable(file);
  context.console.out(arguments.flag("json") ? as_json(file, found) : as_text(shown, found));
  return kFine;
}

}
