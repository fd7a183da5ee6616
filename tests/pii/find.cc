// Finds in documents, for tests/pii/measure.py. In: "LENGTH\n" and so many bytes, again and again.
// Out: a line a finding: the document's number, class, offset, length.

#include <cstdio>
#include <iostream>
#include <string>

#include "mvm/protect/scanner.h"

int main() {
  std::string line;
  for (size_t index = 0; std::getline(std::cin, line); ++index) {
    std::string text(std::stoul(line), '\0');
    std::cin.read(text.data(), static_cast<std::streamsize>(text.size()));
    for (const mvm::protect::Finding& finding : mvm::protect::scan(text))
      std::cout << index << ' ' << class_name(finding.kind) << ' ' << finding.offset << ' '
                << finding.length << '\n';
  }
  return 0;
}
