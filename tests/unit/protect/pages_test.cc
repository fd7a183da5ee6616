// docs/pii: a page for each class, whose examples are what the detectors find.
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "mvm/protect/scanner.h"

#include "../../../src/protect/api_keys.h"

namespace mvm::protect {
namespace {

const std::filesystem::path kPages = std::filesystem::path(MVM_DOCS_DIR) / "pii";

// What stands between backquotes.
std::vector<std::string> in_quotes(const std::string& text) {
  std::vector<std::string> out;
  for (size_t at = 0; (at = text.find('`', at)) != std::string::npos;) {
    const size_t end = text.find('`', at + 1);
    out.push_back(text.substr(at + 1, end - at - 1));
    at = end + 1;
  }
  return out;
}

struct Example {
  std::string text;
  std::vector<std::string> found;
};
struct Page {
  std::set<PiiClass> classes;
  std::vector<Example> examples;
  std::string text;
};

Page read(const std::filesystem::path& path) {
  Page page;
  std::ifstream file(path);
  bool examples = false;
  for (std::string line; std::getline(file, line);) {
    page.text += line + "\n";
    if (page.classes.empty() && line.starts_with("# "))
      for (const std::string& name : in_quotes(line)) {
        const auto kind = class_from_name(name);
        EXPECT_TRUE(kind) << path << ": " << name;
        if (kind) page.classes.insert(*kind);
      }
    if (line.starts_with("## ")) examples = line == "## Examples";
    if (!examples || !line.starts_with("| `")) continue;
    const size_t column = line.rfind(" | ");
    page.examples.push_back(
        {in_quotes(line.substr(0, column)).at(0), in_quotes(line.substr(column))});
  }
  return page;
}

TEST(Pages, ShowWhatIsFound) {
  for (const auto& entry : std::filesystem::directory_iterator(kPages)) {
    const Page page = read(entry.path());
    EXPECT_GE(page.examples.size(), 4U) << entry.path();
    std::set<PiiClass> shown;
    for (const Example& example : page.examples) {
      std::vector<std::string> found;
      for (const Finding& finding : scan(example.text)) {
        if (!page.classes.contains(finding.kind)) continue;
        shown.insert(finding.kind);
        found.push_back(example.text.substr(finding.offset, finding.length));
      }
      EXPECT_EQ(found, example.found) << entry.path() << ": " << example.text;
    }
    EXPECT_EQ(shown, page.classes) << entry.path();
  }
}

TEST(Pages, ThereIsOneForEachClass) {
  std::multiset<PiiClass> described;
  for (const auto& entry : std::filesystem::directory_iterator(kPages))
    for (const PiiClass kind : read(entry.path()).classes) described.insert(kind);
  for (size_t i = 0; i < kPiiClasses; ++i) {
    const auto kind = static_cast<PiiClass>(i);
    // A pattern of the user's own is said in docs/pii.md.
    EXPECT_EQ(described.count(kind), kind == PiiClass::Custom ? 0U : 1U) << class_name(kind);
  }
}

TEST(Pages, NameEveryProvider) {
  const std::string text = read(kPages / "api_key.md").text;
  for (const KeyForm& form : key_forms())
    EXPECT_NE(text.find("| " + std::string(form.provider) + " | `" + std::string(form.prefix) +
                        "` | " + std::to_string(form.least)),
              std::string::npos)
        << form.provider << " " << form.prefix;
  for (const LabelledKey& key : labelled_keys())
    EXPECT_NE(text.find("| " + std::string(key.provider) + " | the word `" +
                        std::string(key.label) + "`"),
              std::string::npos)
        << key.provider;
}

}
}
