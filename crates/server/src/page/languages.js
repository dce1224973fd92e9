// What the highlighter knows of languages: how comments and strings look, and the keywords.

const words = (text) => new Set(text.split(' '));

const DOUBLE = '"(?:\\\\[\\s\\S]|[^"\\\\\\n])*"?';
const SINGLE = "'(?:\\\\[\\s\\S]|[^'\\\\\\n])*'?";
const TEMPLATE = '`(?:\\\\[\\s\\S]|[^`\\\\])*`?';
const SLASHES = '//[^\\n]*';
const BLOCK = '/\\*[\\s\\S]*?(?:\\*/|$)';
const HASH = '#[^\\n]*';
const DASHES = '--[^\\n]*';

const C_COMMENTS = [SLASHES, BLOCK];
const CONTROL = 'if else for while do return break continue switch case default';
const C_WORDS = `${CONTROL} goto auto const extern inline register restrict signed sizeof static struct typedef union unsigned volatile enum void char short int long float double bool true false NULL`;
const JAVA_WORDS = `${CONTROL} class interface enum extends implements import package public private protected static final abstract new this super null true false try catch finally throw throws void int long float double boolean char byte short instanceof var record`;
const SCRIPT_WORDS = `${CONTROL} function class extends const let var new this super null undefined true false try catch finally throw typeof instanceof in of delete void yield async await import export from static get set interface type enum implements readonly namespace declare as`;

const C = { comments: C_COMMENTS, strings: [DOUBLE, SINGLE], keywords: words(C_WORDS) };
const CPP = {
  ...C,
  keywords: words(`${C_WORDS} class namespace template typename public private protected virtual override using new delete this try catch throw nullptr constexpr noexcept operator friend mutable concept requires co_await co_return`),
};
const RUST = {
  comments: C_COMMENTS,
  // A quote that begins a lifetime is no string.
  strings: [DOUBLE, "'(?:\\\\[^\\n]{1,8}?|[^'\\\\\\n])'"],
  keywords: words('as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move mut pub ref return self Self static struct super trait true type unsafe use where while'),
};
const PYTHON = {
  comments: [HASH],
  strings: ['"""[\\s\\S]*?(?:"""|$)', "'''[\\s\\S]*?(?:'''|$)", DOUBLE, SINGLE],
  keywords: words('and as assert async await break class continue def del elif else except finally for from global if import in is lambda match case nonlocal not or pass raise return try while with yield True False None self'),
};
const SCRIPT = { comments: C_COMMENTS, strings: [DOUBLE, SINGLE, TEMPLATE], keywords: words(SCRIPT_WORDS) };
const JSON_LANGUAGE = { comments: C_COMMENTS, strings: [DOUBLE], keywords: words('true false null') };
const GO = {
  comments: C_COMMENTS,
  strings: [DOUBLE, SINGLE, '`[^`]*`?'],
  keywords: words('break case chan const continue default defer else fallthrough for func go goto if import interface map package range return select struct switch type var nil true false string int int64 uint64 float64 bool byte rune error any'),
};
const JAVA = { comments: C_COMMENTS, strings: [DOUBLE, SINGLE], keywords: words(JAVA_WORDS) };
const CSHARP = {
  ...JAVA,
  keywords: words(`${JAVA_WORDS} namespace using string decimal object foreach in out ref is as async await get set override virtual sealed readonly struct delegate event`),
};
const KOTLIN = {
  ...JAVA,
  keywords: words(`${JAVA_WORDS} fun val when object companion data sealed override open internal suspend is in as by`),
};
const SWIFT = {
  ...C,
  keywords: words(`${CONTROL} func let var class struct enum protocol extension import guard defer in is as try catch throw throws nil true false self Self init deinit public private internal static override async await some any where`),
};
const SHELL = {
  comments: ['(?<![\\w$])#[^\\n]*'],
  strings: ['"(?:\\\\[\\s\\S]|[^"\\\\])*"?', "'[^']*'?"],
  keywords: words('if then else elif fi for in do done while until case esac function return exit export local readonly set unset source echo cd sudo'),
};
const SQL = {
  comments: [DASHES, BLOCK],
  strings: ["'(?:''|[^'])*'?", DOUBLE],
  caseless: true,
  keywords: words('select from where and or not in is null like between join left right inner outer full cross on group by order having limit offset union all distinct insert into values update set delete create table index view drop alter add column primary key foreign references unique default as case when then else end exists with asc desc begin commit rollback'),
};
const RUBY = {
  comments: [HASH],
  strings: [DOUBLE, SINGLE],
  keywords: words('def end class module if elsif else unless while until for in do begin rescue ensure return yield self nil true false and or not require require_relative attr_accessor puts then case when super new'),
};
const PHP = {
  comments: [SLASHES, BLOCK, HASH],
  strings: [DOUBLE, SINGLE],
  keywords: words(`${JAVA_WORDS} function echo foreach as use namespace trait fn match elseif global isset unset array string`),
};
const LUA = {
  comments: ['--\\[\\[[\\s\\S]*?(?:\\]\\]|$)', DASHES],
  strings: [DOUBLE, SINGLE],
  keywords: words('and break do else elseif end false for function goto if in local nil not or repeat return then true until while'),
};
const SETTINGS = { comments: ['[#;][^\\n]*'], strings: [DOUBLE, SINGLE], keywords: words('true false null yes no on off') };
const STYLE = {
  comments: [BLOCK],
  strings: [DOUBLE, SINGLE],
  word: '[@.#]?[A-Za-z_-][\\w-]*',
  keywords: words('@media @import @supports @keyframes @font-face @layer @container important inherit initial unset none auto'),
};
const MARKUP = { comments: ['<!--[\\s\\S]*?(?:-->|$)'], strings: [DOUBLE, SINGLE], tags: true, keywords: words('') };
const DIFF = { lines: true };
const MAKE = { comments: [HASH], strings: [DOUBLE, SINGLE], keywords: words('FROM RUN COPY ADD CMD ENTRYPOINT ENV ARG WORKDIR EXPOSE USER VOLUME include ifeq ifdef endif else export') };

/** Languages by the names that stand after a fence. */
export const LANGUAGES = new Map(
  [
    [C, 'c h'],
    [CPP, 'cpp c++ cc cxx hpp cuda glsl hlsl wgsl'],
    [RUST, 'rust rs'],
    [PYTHON, 'python py python3'],
    [SCRIPT, 'javascript js jsx mjs typescript ts tsx'],
    [JSON_LANGUAGE, 'json jsonc json5'],
    [GO, 'go golang'],
    [JAVA, 'java scala dart groovy'],
    [CSHARP, 'csharp cs c#'],
    [KOTLIN, 'kotlin kt'],
    [SWIFT, 'swift'],
    [SHELL, 'bash sh shell zsh console'],
    [SQL, 'sql sqlite postgresql mysql'],
    [RUBY, 'ruby rb'],
    [PHP, 'php'],
    [LUA, 'lua'],
    [SETTINGS, 'toml ini yaml yml conf properties'],
    [STYLE, 'css scss less'],
    [MARKUP, 'html xml svg vue'],
    [DIFF, 'diff patch'],
    [MAKE, 'dockerfile containerfile make makefile'],
  ].flatMap(([language, names]) => names.split(' ').map((name) => [name, language])),
);
