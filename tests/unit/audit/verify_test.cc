// A log is written, something is done to it, and the checker says what.
#include "mvm/audit/verify.h"

#include <algorithm>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sample.h"

namespace mvm::audit {
namespace {

// Two writers' files and a rotation. The first file: 1 open, 2 to 5 events, 6 checkpoint, 7 close.
class AuditVerify : public testing::Test {
 protected:
  void SetUp() override {
    {
      WriterOptions options;
      options.checkpoint_records = 4;
      Writer writer(session_in(folder_.path()), options, no_failure());
      for (int i = 0; i < 4; ++i) append(writer, connect_to("a.example"));
      close(writer);
    }
    {
      WriterOptions options;
      options.max_file = 1200;
      Writer writer(session_in(folder_.path(), 'l'), options, no_failure());
      for (int i = 0; i < 4; ++i) append(writer, connect_to("b.example", policy::Outcome::Allow));
      close(writer);
      known_ = writer.head();
    }
    files_ = read_files(folder_.path());
    ASSERT_EQ(told(verify_files(files_, known_)), "fine");
    ASSERT_GE(files_.size(), 3U);
  }

  std::string& line(size_t at) { return files_[0].lines.at(at); }

  sys::TempDir folder_;
  Files files_;
  Head known_;
};

TEST_F(AuditVerify, CountsWhatItHasSeen) {
  const Verdict verdict = verify_files(files_);
  EXPECT_TRUE(verdict.closed);
  EXPECT_EQ(verdict.head, known_);
  EXPECT_EQ(verdict.files, files_.size());
  EXPECT_EQ(verdict.unsigned_records, 0U);
  EXPECT_EQ(told(verify_log(folder_.path(), LogId("sb-test"), key_of('d').public_key())), "fine");
}

TEST_F(AuditVerify, SeesTheSameHoweverTheBytesCome) {
  for (const size_t piece : {size_t{1}, size_t{7}, size_t{100'000}})
    EXPECT_EQ(verify_files(files_, known_, piece).records, known_.seq);
}

TEST_F(AuditVerify, FindsEverySingleByteThatIsChanged) {
  for (size_t file = 0; file < files_.size(); ++file) {
    const std::string text = text_of(files_[file]);
    for (size_t at = 0; at < text.size(); ++at) {
      std::string changed = text;
      // A neighbour, mostly another digit or letter; sometimes what is no text at all.
      changed[at] = static_cast<char>(changed[at] ^ (at % 8 == 0 ? '\x80' : '\x01'));
      Files files = files_;
      files[file].lines.clear();
      files[file].tail = changed;
      ASSERT_FALSE(verify_files(files, known_).ok())
          << "file " << file << " byte " << at << " of " << text.substr(at, 20);
    }
  }
}

TEST_F(AuditVerify, FindsEveryLineThatIsRemovedDoubledOrSwapped) {
  for (size_t file = 0; file < files_.size(); ++file) {
    for (size_t at = 0; at < files_[file].lines.size(); ++at) {
      Files removed = files_;
      removed[file].lines.erase(removed[file].lines.begin() + static_cast<ptrdiff_t>(at));
      EXPECT_FALSE(verify_files(removed, known_).ok()) << file << " " << at;
      Files doubled = files_;
      doubled[file].lines.insert(doubled[file].lines.begin() + static_cast<ptrdiff_t>(at),
                                 files_[file].lines[at]);
      EXPECT_FALSE(verify_files(doubled, known_).ok()) << file << " " << at;
      for (size_t other = at + 1; other < files_[file].lines.size(); ++other) {
        Files swapped = files_;
        std::swap(swapped[file].lines[at], swapped[file].lines[other]);
        EXPECT_FALSE(verify_files(swapped, known_).ok()) << file << " " << at << " " << other;
      }
    }
  }
}

TEST_F(AuditVerify, FindsEveryTruncation) {
  for (size_t file = 0; file < files_.size(); ++file) {
    const std::string text = text_of(files_[file]);
    for (size_t size = 0; size < text.size(); ++size) {
      // All places near the end of a line, and some within.
      if (text.substr(size, 4).find('\n') == text.npos && size % 16 != 0) continue;
      // This file ends here, with the later ones there and without.
      for (const bool later : {true, false}) {
        Files files(files_.begin(),
                    later ? files_.end() : files_.begin() + static_cast<ptrdiff_t>(file) + 1);
        files[file].lines.clear();
        files[file].tail = text.substr(0, size);
        ASSERT_FALSE(verify_files(files, known_).ok()) << file << " " << size << " " << later;
        const Verdict alone = verify_files(files);
        ASSERT_TRUE(!alone.ok() || !alone.closed || alone.head != known_);
      }
    }
  }
}

TEST_F(AuditVerify, FindsAMissingFile) {
  for (size_t file = 0; file < files_.size(); ++file) {
    Files files = files_;
    files.erase(files.begin() + static_cast<ptrdiff_t>(file));
    EXPECT_FALSE(verify_files(files, known_).ok()) << file;
  }
}

// ---- what it says

TEST_F(AuditVerify, NamesTheRecordThatWasEdited) {
  std::string& edited = line(2);
  edited.replace(edited.find("deny"), 4, "Deny");
  EXPECT_EQ(told(verify_files(files_)),
            "edited 000001.jsonl:3 seq 3 the record is not the one that the next was chained to");
}

TEST_F(AuditVerify, NamesTheRecordThatWasEditedBeforeASignedOne) {
  std::string& edited = line(4);
  edited.replace(edited.find("a.example"), 9, "b.example");
  EXPECT_THAT(told(verify_files(files_)), testing::StartsWith("edited 000001.jsonl:5 seq 5 "));
}

TEST_F(AuditVerify, NamesARecordWhoseHashOfTheOneBeforeWasEdited) {
  std::string& edited = line(2);
  char& digit = edited[edited.size() - 3];
  digit = digit == 'a' ? 'b' : 'a';
  EXPECT_EQ(told(verify_files(files_)),
            "edited 000001.jsonl:3 seq 3 the record does not continue the one before it");
}

TEST_F(AuditVerify, NamesARecordWhoseNumberWasEdited) {
  std::string& edited = line(2);
  edited.replace(edited.find("\"seq\":3"), 7, "\"seq\":8");
  EXPECT_EQ(told(verify_files(files_)),
            "edited 000001.jsonl:3 seq 8 the record's number is not 3, which is due");
}

TEST_F(AuditVerify, NamesWhatIsMissing) {
  auto& lines = files_[0].lines;
  lines.erase(lines.begin() + 2, lines.begin() + 4);
  EXPECT_EQ(told(verify_files(files_)),
            "removed 000001.jsonl:3 seq 5 records 3 to 4 before it: missing");
}

TEST_F(AuditVerify, NamesARecordThatIsThereTwice) {
  auto& lines = files_[0].lines;
  lines.insert(lines.begin() + 3, lines[2]);
  EXPECT_EQ(told(verify_files(files_)),
            "inserted 000001.jsonl:4 seq 3 the record before it, a second time");
}

TEST_F(AuditVerify, NamesARecordOfSomebodyElses) {
  auto& lines = files_[0].lines;
  lines.insert(lines.begin() + 2,
               encode({3, crypto::sha256({})}, {}, LogId("sb-test"), connect_to("x.example"), {}));
  EXPECT_EQ(
      told(verify_files(files_)),
      "inserted 000001.jsonl:3 seq 3 the record was not there: the next one follows without it");
}

TEST_F(AuditVerify, NamesAForgedRecordThatContinuesTheChain) {
  auto& lines = files_[0].lines;
  lines.insert(lines.begin() + 2,
               encode({3, hash_of(lines[1])}, {}, LogId("sb-test"), connect_to("x.example"), {}));
  EXPECT_EQ(
      told(verify_files(files_)),
      "inserted 000001.jsonl:3 seq 3 the record was not there: the next ones go on without it");
}

TEST_F(AuditVerify, NamesARecordOutOfItsPlace) {
  auto& lines = files_[0].lines;
  std::swap(lines[2], lines[3]);
  EXPECT_EQ(told(verify_files(files_)),
            "reordered 000001.jsonl:3 seq 4 the record is not at its place");
}

TEST_F(AuditVerify, SeesByItsSignatureThatAChainWasWrittenAnew) {
  auto& lines = files_[0].lines;
  // Everything after the edit is chained again, as whoever holds no key would.
  Position at{3, hash_of(lines[1])};
  for (size_t i = 2; i < 5; ++i) {
    lines[i] = encode(at, {}, LogId("sb-test"), connect_to("harmless.example"), {});
    at = {at.seq + 1, hash_of(lines[i])};
  }
  lines[5] = encode(at, {}, Checkpoint{}, key_of('x'));
  EXPECT_THAT(told(verify_files(files_)),
              testing::StartsWith("signature 000001.jsonl:6 seq 6 records 2 to 6: not what was"));
}

TEST_F(AuditVerify, SeesThatTheDaemonsKeyIsAnother) {
  Verifier verifier(key_of('e').public_key(), LogId("sb-test"));
  verifier.begin_file(file_name(1), 1);
  verifier.feed(as_bytes(text_of(files_[0])));
  EXPECT_THAT(told(verifier.finish()), testing::StartsWith("key 000001.jsonl:1 seq 1 "));
}

TEST_F(AuditVerify, SeesThatTheEndIsMissingByWhatTheDaemonKnows) {
  files_.back().lines.pop_back();
  EXPECT_TRUE(verify_files(files_).ok());
  EXPECT_FALSE(verify_files(files_).closed);
  EXPECT_THAT(told(verify_files(files_, known_)), testing::StartsWith("truncated "));
}

TEST_F(AuditVerify, SeesALogOfAnotherSandbox) {
  Verifier verifier(key_of('d').public_key(), LogId("sb-other"));
  verifier.begin_file(file_name(1), 1);
  verifier.feed(as_bytes(text_of(files_[0])));
  EXPECT_THAT(told(verifier.finish()), testing::StartsWith("file 000001.jsonl:1 "));
}

TEST_F(AuditVerify, ReadsAnExportedLog) {
  Verifier verifier(key_of('d').public_key(), LogId("sb-test"), Verifier::Layout::Exported, known_);
  verifier.begin_file("export", 1);
  for (const File& file : files_) verifier.feed(as_bytes(text_of(file)));
  EXPECT_EQ(told(verifier.finish()), "fine");
}

TEST_F(AuditVerify, KeepsNoMoreThanALineOfEndlessInput) {
  Verifier verifier(key_of('d').public_key(), LogId("sb-test"));
  verifier.begin_file(file_name(1), 1);
  const std::string block(1 << 20, 'x');
  for (int i = 0; i < 64; ++i) verifier.feed(as_bytes(block));
  EXPECT_EQ(verifier.finish().open_end, uint64_t{64} << 20);
}

}
}
