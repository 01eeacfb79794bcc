//! How long files and functions may be.

use crate::{
    hold,
    mask::python,
    source::Source,
    tree::{files_below, read, root, shown, sources},
};

/// Lines of a Rust file before its tests.
const FILE_LINES_MAX: usize = 400;
/// Lines of a Rust file of tests: what is tested together is read together.
const TEST_FILE_LINES_MAX: usize = 600;
/// Lines of a Python file: its doc strings are the reference that people read.
const PYTHON_FILE_LINES_MAX: usize = 800;
/// Lines of a function from its name to its closing brace.
const FUNCTION_LINES_MAX: usize = 60;
/// Lines of a Python function: its doc string with all parameters is among them.
const PYTHON_FUNCTION_LINES_MAX: usize = 70;

/// Where Python is.
const PYTHON: [&str; 5] = ["python", "demo", "tests", "scripts", "bench"];

#[test]
fn rust_files_stay_readable() {
    let lines = |source: &Source| {
        let all = source.text.lines().count();
        let tests = source.is_test[..all].iter().filter(|is_test| **is_test).count();
        // A file of tests is measured whole.
        if tests == all { all } else { all - tests }
    };
    let lines_max = |source: &Source| {
        let is_of_tests = source.is_test.iter().rev().skip(1).all(|is_test| *is_test);
        if is_of_tests { TEST_FILE_LINES_MAX } else { FILE_LINES_MAX }
    };
    let sources = sources();
    let long = sources.iter().filter(|source| lines(source) > lines_max(source));
    hold(
        "A file has at most 400 lines before its tests, a file of tests at most 600.",
        long.map(|source| format!("{}: {} lines", source.path, lines(source))).collect(),
    );
}

/// Whether a line of code begins a function.
fn begins_function(line: &str) -> bool {
    const QUALIFIERS: [&str; 6] = ["const", "async", "unsafe", "extern", "default", "\"C\""];
    let mut words = line
        .split_whitespace()
        .skip_while(|word| word.starts_with("pub") || word.starts_with("in ") || QUALIFIERS.contains(word));
    words.next() == Some("fn")
}

#[test]
fn rust_functions_stay_readable() {
    let mut long = Vec::new();
    for source in sources() {
        let mut at = 0;
        for (number, line) in source.code.split_inclusive('\n').enumerate() {
            if begins_function(line) && !source.is_test[number] {
                let lines = source.line(source.item_end(at)) - number;
                if lines > FUNCTION_LINES_MAX {
                    long.push(format!("{}:{}: {lines} lines", source.path, number + 1));
                }
            }
            at += line.len();
        }
    }
    hold("A function has at most 60 lines.", long);
}

fn python_files() -> Vec<(String, String)> {
    let files = PYTHON.iter().flat_map(|directory| files_below(&root().join(directory), "py"));
    files.map(|path| (shown(&path), read(&path))).collect()
}

#[test]
fn python_files_stay_readable() {
    let files = python_files();
    let long = files.iter().filter(|(_, text)| text.lines().count() > PYTHON_FILE_LINES_MAX);
    hold(
        "A Python file has at most 800 lines.",
        long.map(|(path, text)| format!("{path}: {} lines", text.lines().count())).collect(),
    );
}

/// Functions of a Python file: the line of `def`, and how many lines it has.
fn python_functions(text: &str) -> Vec<(usize, usize)> {
    let code = python(text).code;
    let code: Vec<_> = code.lines().collect();
    // Lines with nothing but a string are blank in the code, but count.
    let text: Vec<_> = text.lines().collect();
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut functions = Vec::new();
    for (start, line) in code.iter().enumerate() {
        let name = line.trim_start();
        if !(name.starts_with("def ") || name.starts_with("async def ")) {
            continue;
        }
        let is_over = |line: &str| {
            !line.trim().is_empty()
                && indent(line) <= indent(code[start])
                && !line.trim_start().starts_with([')', ']', '}', '"', '\''])
        };
        let end =
            code[start + 1..].iter().position(|line| is_over(line)).map_or(code.len(), |len| start + 1 + len);
        let blanks = text[start..end]
            .iter()
            .rev()
            .take_while(|line| line.trim().is_empty() || line.trim_start().starts_with('@'))
            .count();
        functions.push((start + 1, end - start - blanks));
    }
    functions
}

#[test]
fn python_functions_stay_readable() {
    let mut long = Vec::new();
    for (path, text) in python_files() {
        let functions = python_functions(&text).into_iter();
        let functions = functions.filter(|(_, lines)| *lines > PYTHON_FUNCTION_LINES_MAX);
        long.extend(functions.map(|(line, lines)| format!("{path}:{line}: {lines} lines")));
    }
    hold("A Python function has at most 70 lines.", long);
}

#[test]
fn functions_are_measured_from_name_to_end() {
    assert!(begins_function("    pub(crate) const fn a() {"));
    assert!(!begins_function("    let f: fn(u8) = a;"));
    let text = "def a(\n    b,\n):\n    \"\"\"Does\nit.\n\"\"\"\n    return b\n\n\n@c\ndef d():\n    pass\n";
    assert_eq!(python_functions(text), [(1, 7), (11, 2)]);
}
