#pragma once
// The command line as data: every command, its arguments, its flags and what they mean. One table
// drives the parser, `--help`, docs/cli.md and the shell completions.

#include <span>
#include <string>
#include <string_view>

namespace mvm::cli {

enum class Verb {
  Init,
  Up,
  Run,
  Exec,
  Shell,
  Console,
  Copy,
  FileRead,
  FileWrite,
  FileStat,
  FileList,
  FileMakeDirectory,
  FileMove,
  FileRemove,
  FileWatch,
  Logs,
  Ps,
  Inspect,
  Stats,
  Port,
  Mcp,
  Down,
  Remove,
  ImageImport,
  ImageList,
  ImageInspect,
  ImageRemove,
  ImagePull,
  ImageTag,
  ImageVerify,
  ImageExport,
  ImagePrune,
  Build,
  BuilderStatus,
  BuilderShell,
  BuilderCollect,
  BuilderReset,
  KernelImport,
  KernelList,
  KernelRemove,
  AuditTail,
  AuditShow,
  AuditVerify,
  AuditExport,
  AuditWhy,
  ConfigValidate,
  ConfigShow,
  PolicyScan,
  AiUsage,
  AiBudget,
  Metrics,
  SecretSet,
  SecretList,
  SecretRemove,
  SecretTest,
  Daemon,
  DaemonStatus,
  DaemonStop,
  PolicyExplain,
  PolicyAllow,
  PolicyDeny,
  PolicyList,
  PolicySuggest,
  PolicyPending,
  PolicyApprove,
  Doctor,
  Completion,
  Version,
  Help,
};

// What a shell may offer for a word.
enum class Offer { Nothing, Sandboxes, Images, Files, Shells, Commands };

struct Option {
  char letter;             // 0: none
  std::string_view name;   // without the dashes
  std::string_view alias;  // a second long spelling, or ""
  std::string_view value;  // what stands for the value in help; "" for a flag
  std::string_view help;
  bool repeatable = false;
  bool hidden = false;
  Offer offer = Offer::Nothing;
};

struct Positional {
  std::string_view name;  // "NAME"
  std::string_view help;
  bool required = true;
  bool repeatable = false;
  Offer offer = Offer::Nothing;
};

struct Command {
  Verb verb;
  std::string_view name;   // "exec", or "image import"
  std::string_view alias;  // of the last word: "stop" for down; or ""
  std::string_view group;  // heading in the overview
  std::string_view summary;
  std::string_view description;  // paragraphs
  std::span<const Positional> positionals;
  std::span<const Option> options;
  // What follows is a command for the sandbox and is passed on as it is: "" when there is none,
  // else how help shows it.
  std::string_view rest;
  bool rest_required = false;
  std::span<const std::string_view> examples;
};

std::span<const Command> commands();
const Command* find_command(Verb verb);
// By its words, aliases included: ("image", "ls"). Nothing when there is none.
const Command* find_command(std::string_view first, std::string_view second);
// Whether `word` starts commands of two words ("image").
bool is_group(std::string_view word);

}
